internal import COpenSSL

/// Secret bytes in a buffer. The buffer is overwritten with zeros when the last reference to this object is released.
///
/// An `[UInt8]` is not suitable for secrets: when an array grows, Swift copies it to new memory and does not overwrite the old memory.
public final class SecretBytes: @unchecked Sendable {  // Only the initializer writes to the buffer.
    private let buffer: UnsafeMutableRawBufferPointer
    public let count: Int

    /// Creates a buffer of `capacity` bytes and calls `body` to fill the buffer. `body` returns the number of bytes that it wrote.
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

    /// Calls `body` with a pointer to the bytes. The pointer is valid only during the call. If `body` copies the bytes, it must overwrite
    /// the copy with zeros after use.
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

/// The passphrase of an encrypted private key file. The bytes are overwritten with zeros when the last reference to them is released.
public struct Passphrase: Sendable {
    let bytes: SecretBytes

    /// The maximum length of a passphrase, in bytes. The `openssl` command has the same limit.
    public static let maximumLength = 1024

    /// The recommended minimum length of a passphrase, in bytes. `keygen` warns about a shorter passphrase, because an attacker can guess a
    /// short passphrase.
    public static let shortLength = 12

    /// The length of the passphrase in bytes.
    public var length: Int { bytes.count }

    /// Creates a passphrase from its bytes.
    ///
    /// - Throws: `unusable-passphrase` if the passphrase does not have 1 to 1024 bytes.
    public init(_ bytes: SecretBytes) throws(KeyError) {
        guard (1...Self.maximumLength).contains(bytes.count) else {
            throw KeyError(
                .unusablePassphrase, "the passphrase has \(bytes.count) bytes; expected 1 to \(Self.maximumLength)")
        }
        self.bytes = bytes
    }
}
