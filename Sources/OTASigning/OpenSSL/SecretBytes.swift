internal import COpenSSL

/// Bytes that nobody may find in memory afterwards: wiped when the last reference goes.
///
/// An `[UInt8]` is no place for them, as it leaves copies behind wherever it grows.
public final class SecretBytes: @unchecked Sendable {  // Written by its initializer only.
    private let buffer: UnsafeMutableRawBufferPointer
    public let count: Int

    /// Has `body` write up to `capacity` bytes and tell how many it wrote.
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

    /// The pointer is valid during the call only; what is copied from it is the caller's to wipe.
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
