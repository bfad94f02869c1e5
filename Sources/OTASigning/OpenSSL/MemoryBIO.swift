internal import COpenSSL

/// Owns a BIO in memory. libcrypto's PEM functions read from it and write to it.
struct MemoryBIO: ~Copyable {
    let pointer: OpaquePointer

    /// Creates a BIO that reads `text`. The text must outlive the BIO.
    init(reading text: UnsafeRawBufferPointer) throws(OpenSSLFailure) {
        pointer = try opened(BIO_new_mem_buf(text.baseAddress, Int32(clamping: text.count)))
    }

    /// Creates an empty BIO for writing. Its memory is wiped when it is released.
    init() throws(OpenSSLFailure) {
        pointer = try opened(BIO_new(BIO_s_secmem()))
    }

    deinit { BIO_free_all(pointer) }

    /// Returns the written bytes and empties the BIO, so only the first call returns them.
    func contents() -> SecretBytes {
        SecretBytes(capacity: BIO_ctrl_pending(pointer)) { buffer in
            var count = 0
            return BIO_read_ex(pointer, buffer.baseAddress, buffer.count, &count) == 1 ? count : 0
        }
    }
}
