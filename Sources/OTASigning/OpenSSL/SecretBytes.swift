internal import COpenSSL

/// Secret bytes that are wiped from memory when the last reference is released.
///
/// An `[UInt8]` is not suitable, because it leaves copies in memory when it grows.
public final class SecretBytes: @unchecked Sendable {  // Only the initializer writes to the buffer.
    private let buffer: UnsafeMutableRawBufferPointer
    public let count: Int

    /// Calls `body`, which writes up to `capacity` bytes and returns the number of bytes that it wrote.
    public init<Failure: Error>(
        capacity: Int, _ body: (UnsafeMutableRawBufferPointer) throws(Failure) -> Int
    ) throws(Failure) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 1)
        do {
            let written = try body(buffer)
            precondition((0...capacity).contains(written), "more secret bytes than the capacity")
            self.buffer = buffer
            count = written
        } catch {
            Self.wipe(buffer)
            throw error
        }
    }

    public convenience init(copying bytes: some Collection<UInt8>) {
        self.init(capacity: bytes.count) { buffer in
            buffer.copyBytes(from: bytes)
            return bytes.count
        }
    }

    deinit { Self.wipe(buffer) }

    /// Calls `body` with the bytes. The pointer is valid only during the call. The caller must wipe any copy.
    public func withUnsafeBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
    }

    private static func wipe(_ buffer: UnsafeMutableRawBufferPointer) {
        OPENSSL_cleanse(buffer.baseAddress, buffer.count)
        buffer.deallocate()
    }
}

/// The passphrase of an encrypted private key file. Its bytes are wiped from memory when the last reference is released.
public struct Passphrase: Sendable {
    let bytes: SecretBytes

    /// The maximum length, in bytes. It is the limit of the `openssl` command.
    public static let maximumLength = 1024

    /// A passphrase with fewer bytes can be found by trying.
    public static let shortLength = 12

    /// In bytes.
    public var length: Int { bytes.count }

    /// - Throws: `unusable-passphrase` unless the passphrase has 1 to 1024 bytes.
    public init(_ bytes: SecretBytes) throws(KeyError) {
        guard (1...Self.maximumLength).contains(bytes.count) else {
            throw KeyError(
                .unusablePassphrase, "the passphrase has \(bytes.count) bytes; expected 1 to \(Self.maximumLength)")
        }
        self.bytes = bytes
    }
}
