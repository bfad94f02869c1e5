internal import COpenSSL

/// Owns a BIO in memory: what libcrypto's PEM functions read from and write to.
struct MemoryBIO: ~Copyable {
    let pointer: OpaquePointer

    /// Reads `text`, which must outlive it.
    init(reading text: UnsafeRawBufferPointer) throws(OpenSSLFailure) {
        pointer = try opened(BIO_new_mem_buf(text.baseAddress, Int32(clamping: text.count)))
    }

    /// Empty, to be written to; wiped when it goes.
    init() throws(OpenSSLFailure) {
        pointer = try opened(BIO_new(BIO_s_secmem()))
    }

    deinit { BIO_free_all(pointer) }

    /// What was written to it. Can be taken once.
    func contents() -> SecretBytes {
        SecretBytes(capacity: BIO_ctrl_pending(pointer)) { buffer in
            var count = 0
            return BIO_read_ex(pointer, buffer.baseAddress, buffer.count, &count) == 1 ? count : 0
        }
    }
}
