import CNATS
import DescriptorIO
import Glibc

/// Proves the identity of a user to the server, in callbacks of libnats. The callbacks read the user's file each time the library connects.
///
/// libnats before 3.8 sends no signature if the first byte of the signature is 0. The server then refuses the user, although the
/// credentials are right. This concerns one of 256 logins (https://github.com/nats-io/nats.c/pull/705). Therefore the callback gives the
/// library no such signature, and the attempt to connect ends before the server has checked it. The next attempt gets another nonce, and
/// thus another signature.
enum LibraryCredentials {
    private struct User {
        let file: String
        /// Whether the last call of libnats to connect failed because of a signature that starts with 0.
        var hasUnusableSignature = false
    }

    private static let users = Guarded(NumberedTable<User>())

    /// Adds a file, and returns its number.
    static func add(_ file: String) -> UInt { users.with { $0.add(User(file: file)) } }

    static func remove(_ number: UInt) { users.with { $0[number] = nil } }

    /// Returns whether a signature was not usable since the last call of this method.
    static func takeUnusableSignature(_ number: UInt) -> Bool {
        users.with { users in
            defer { users[number]?.hasUnusableSignature = false }
            return users[number]?.hasUnusableSignature ?? false
        }
    }

    /// Returns the signature of a nonce; nil if libnats would not send this signature.
    private static func usableSignature(of nonce: [UInt8], _ user: NKey.User) throws(NATSError) -> [UInt8]? {
        let signature = try user.signature(of: nonce)
        // A server without a nonce does not check the signature.
        return signature.first == 0 && !nonce.isEmpty ? nil : signature
    }

    static let onSign: natsSignatureHandler = { text, signature, length, nonce, context in
        let number = UInt(bitPattern: context)
        guard let file = users.with({ $0[number]?.file }) else { return NATS_CONNECTION_CLOSED }
        do throws(NATSError) {
            let nonce = nonce.map {
                Array(UnsafeBufferPointer(start: $0, count: strlen($0))).map(UInt8.init(bitPattern:))
            }
            guard let bytes = try usableSignature(of: nonce ?? [], try NKey.User(file: file)) else {
                users.with { $0[number]?.hasUnusableSignature = true }
                text?.pointee = strdup("the signature of the server's nonce starts with 0")
                return NATS_IO_ERROR
            }
            guard let copy = malloc(bytes.count) else { return NATS_NO_MEMORY }
            copy.copyMemory(from: bytes, byteCount: bytes.count)
            signature?.pointee = copy.assumingMemoryBound(to: UInt8.self)
            length?.pointee = CInt(bytes.count)
            return NATS_OK
        } catch {
            text?.pointee = strdup(error.description)
            return NATS_ERR
        }
    }

    static let onToken: natsUserJWTHandler = { token, text, context in
        let number = UInt(bitPattern: context)
        guard let file = users.with({ $0[number]?.file }) else { return NATS_CONNECTION_CLOSED }
        do throws(NATSError) {
            token?.pointee = strdup(try NKey.User(file: file).token ?? "")
            return token?.pointee == nil ? NATS_NO_MEMORY : NATS_OK
        } catch {
            text?.pointee = strdup(error.description)
            return NATS_ERR
        }
    }
}
