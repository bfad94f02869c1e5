import COpenSSL
import Glibc

/// The keys of users of a NATS server.
///
/// A seed is the base32 text of two prefix bytes, a private Ed25519 key (32 bytes) and a CRC. A public key is the base32 text of one prefix
/// byte, the Ed25519 key (32 bytes) and a CRC. Source: https://github.com/nats-io/nkeys, `strkey.go` and `crc16.go`.
package enum NKey {
    /// The prefix byte of a user's public key. The base32 text of such a key starts with `U`.
    private static let user: UInt8 = 20 << 3
    private static let seed: UInt8 = 18 << 3
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".utf8)

    /// Returns a new random seed of a user (`SU…`), and its public key (`U…`).
    package static func makeUser() -> (seed: String, publicKey: String)? {
        // The kernel's random numbers (getrandom).
        var generator = SystemRandomNumberGenerator()
        var text = [seed | user >> 5, (user & 31) << 3]
        text += (0..<32).map { _ in UInt8.random(in: 0...255, using: &generator) }
        let end = checksum(text[...])
        text += [UInt8(truncatingIfNeeded: end), UInt8(end >> 8)]
        let seed = encoded(text)
        return publicKey(ofSeed: seed).map { (String(decoding: seed, as: UTF8.self), $0) }
    }

    /// A user in a file. The file may contain other lines, such as comments.
    struct User {
        /// The public key (`U…`).
        let key: String
        /// The user's JWT; nil if the file (`*.creds`) contains none.
        let token: String?
        /// The private Ed25519 key (32 bytes).
        private let privateKey: [UInt8]

        /// Reads the first seed of a user in a file.
        ///
        /// - Throws: `invalidArguments` if the file cannot be read, or if it contains no seed of a user, or a malformed JWT.
        init(file: String) throws(NATSError) {
            guard let text = read(file) else {
                throw NATSError(
                    .invalidArguments, "the file with the NKey seed cannot be read: \(file)",
                    cause: strerror(errno).map { String(cString: $0) })
            }
            let words = text.split { $0 == 0x0A || $0 == 0x0D || $0 == 0x20 || $0 == 0x09 }
            let seeds = words.lazy.filter { $0.starts(with: Array("SU".utf8)) }
            guard let bytes = seeds.compactMap({ NKey.privateKey(ofSeed: $0) }).first, let key = publicKey(of: bytes)
            else {
                throw NATSError(.invalidArguments, "the file contains no NKey seed of a user ('SU…'): \(file)")
            }
            (self.key, privateKey) = (key, bytes)
            let lines = text.split { $0 == 0x0A || $0 == 0x0D }
            guard let header = lines.firstIndex(where: { $0.contains(Array("BEGIN NATS USER JWT".utf8)) }) else {
                token = nil
                return
            }
            // libnats writes the JWT into JSON and does not escape it.
            guard let token = lines.dropFirst(header + 1).first,
                token.allSatisfy({ Subject.isTokenCharacter($0) || $0 == 0x2E })
            else { throw NATSError(.invalidArguments, "the JWT of the user is malformed: \(file)") }
            self.token = String(decoding: token, as: UTF8.self)
        }

        /// Returns the Ed25519 signature (64 bytes) of a message.
        func signature(of message: [UInt8]) throws(NATSError) -> [UInt8] {
            var (bytes, count) = ([UInt8](repeating: 0, count: 64), 64)
            let isSigned =
                withKey(privateKey) { key -> Bool in
                    guard let context = EVP_MD_CTX_new() else { return false }
                    defer { EVP_MD_CTX_free(context) }
                    return EVP_DigestSignInit(context, nil, nil, nil, key) == 1
                        && EVP_DigestSign(context, &bytes, &count, message, message.count) == 1 && count == 64
                } ?? false
            guard isSigned else { throw NATSError(.resourcesExhausted, "OpenSSL did not sign the server's nonce") }
            return bytes
        }
    }

    /// Returns the public key (`U…`) for a user's seed; nil if the seed is malformed.
    package static func publicKey(ofSeed seed: some Sequence<UInt8>) -> String? {
        privateKey(ofSeed: seed).flatMap(publicKey(of:))
    }

    private static func privateKey(ofSeed seed: some Sequence<UInt8>) -> [UInt8]? {
        guard let bytes = decoded(seed), bytes.count == 36 else { return nil }
        let kind = (bytes[0] & 7) << 5 | bytes[1] >> 3
        guard bytes[0] & 0xF8 == Self.seed, kind == user else { return nil }
        let sum = UInt16(bytes[34]) | UInt16(bytes[35]) << 8
        return checksum(bytes[..<34]) == sum ? Array(bytes[2..<34]) : nil
    }

    private static func publicKey(of privateKey: [UInt8]) -> String? {
        withKey(privateKey) { key -> String? in
            var (bytes, count) = ([UInt8](repeating: 0, count: 32), 32)
            guard EVP_PKEY_get_raw_public_key(key, &bytes, &count) == 1, count == 32 else { return nil }
            var text = [user] + bytes
            let end = checksum(text[...])
            text += [UInt8(truncatingIfNeeded: end), UInt8(end >> 8)]
            return String(decoding: encoded(text), as: UTF8.self)
        } ?? nil
    }

    private static func withKey<Result>(_ privateKey: [UInt8], _ body: (OpaquePointer) -> Result) -> Result? {
        guard let key = EVP_PKEY_new_raw_private_key_ex(nil, "ED25519", nil, privateKey, privateKey.count) else {
            return nil
        }
        defer { EVP_PKEY_free(key) }
        return body(key)
    }

    private static func read(_ path: String) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        return count < 0 ? nil : Array(bytes.prefix(count))
    }

    /// Decodes base32 without padding (RFC 4648).
    private static func decoded(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var (bits, count) = (UInt32(0), 0)
        var bytes: [UInt8] = []
        for character in text {
            guard let value = alphabet.firstIndex(of: character) else { return nil }
            bits = bits << 5 | UInt32(value)
            count += 5
            if count >= 8 {
                count -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
            }
        }
        return bytes
    }

    private static func encoded(_ bytes: [UInt8]) -> [UInt8] {
        var (bits, count) = (UInt32(0), 0)
        var text: [UInt8] = []
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            count += 8
            while count >= 5 {
                count -= 5
                text.append(alphabet[Int(bits >> UInt32(count) & 31)])
            }
        }
        if count > 0 { text.append(alphabet[Int(bits << UInt32(5 - count) & 31)]) }
        return text
    }

    /// CRC-16/XMODEM.
    private static func checksum(_ bytes: ArraySlice<UInt8>) -> UInt16 {
        bytes.reduce(0) { sum, byte in
            (0..<8).reduce(sum ^ UInt16(byte) << 8) { sum, _ in sum & 0x8000 != 0 ? sum << 1 ^ 0x1021 : sum << 1 }
        }
    }
}
