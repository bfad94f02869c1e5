internal import COpenSSL

/// Secret bytes that are wiped from memory when the last reference is released.
///
/// An `[UInt8]` is no place for them, as it leaves copies behind wherever it grows.
public final class SecretBytes: @unchecked Sendable {  // Written by its initializer only.
    private let buffer: UnsafeMutableRawBufferPointer
    public let count: Int

    /// Calls `body`, which writes up to `capacity` bytes and returns the number of bytes that it wrote.
    public init<Failure: Error>(
        capacity: Int, _ body: (UnsafeMutableRawBufferPointer) throws(Failure) -> Int
    ) throws(Failure) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 1)
        do {
            let written = try body(buffer)
            precondition((0...capacity).contains(written), "more secret bytes than there was room for")
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
