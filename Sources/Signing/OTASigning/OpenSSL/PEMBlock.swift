internal import COpenSSL

/// The PEM block in a text that contains exactly one block. Other text before and after the block is ignored. A block `EC PARAMETERS`
/// before the key is ignored, too.
///
/// A text with two blocks is an error, because the user could mean either block.
struct PEMBlock {
    /// The kind of block, such as `PUBLIC KEY` in `-----BEGIN PUBLIC KEY-----`.
    let label: String
    /// The decoded contents of the block, in DER.
    let contents: SecretBytes
    /// Whether the block has header lines before the contents (RFC 1421). For example, a key with OpenSSL's old encryption has a
    /// `Proc-Type` line.
    let hasHeader: Bool

    /// The maximum length of the text, in bytes. A key in PEM has at most a few thousand bytes. The limit exists because the user can give
    /// the path of a large file by mistake.
    static let maximumLength = 64 << 10

    /// Parses the only PEM block in `text`.
    ///
    /// - Parameters:
    ///   - labels: the accepted labels.
    ///   - algorithms: the names of the expected algorithms, for the error message.
    /// - Throws: `key-too-large`; `not-a-key` if `text` is malformed, does not contain exactly one block, or has a label that is not in
    ///   `labels`; `wrong-algorithm` instead of `not-a-key` if the label names another algorithm (example: `EC PRIVATE KEY` where an
    ///   Ed25519 private key is expected); `crypto-failed`.
    init(in text: SecretBytes, labels: String..., algorithms: String = "Ed25519") throws(KeyError) {
        self = try text.withUnsafeBytes { (text) throws(KeyError) in
            try PEMBlock(in: text, labels: labels, algorithms)
        }
    }

    private init(in text: UnsafeRawBufferPointer, labels: [String], _ algorithms: String) throws(KeyError) {
        guard text.count <= Self.maximumLength else {
            throw KeyError(.tooLarge, "the text has more than \(Self.maximumLength) bytes, the limit for a key")
        }
        let isPublic = labels == ["PUBLIC KEY"]
        let source = try KeyError.translating { () throws(OpenSSLFailure) in try MemoryBIO(reading: text) }
        var block: PEMBlock
        do throws(OpenSSLFailure) {
            block = try Self.next(source)
            // `openssl ecparam -genkey` writes this block before the key. The key contains the same parameters.
            if block.label == "EC PARAMETERS" { block = (try? Self.next(source)) ?? block }
        } catch {
            throw error.isEnd
                ? ForeignKey.refusal(of: text, isPublic: isPublic) : KeyError(.notAKey, "malformed PEM block")
        }
        self = block
        guard labels.contains(label) else {
            throw ForeignKey.refusal(of: self, insteadOf: labels, algorithms)
        }
        guard !hasHeader || isPublic else {
            throw KeyError(
                .notAKey, "the key has an old encryption, which is not supported",
                hint: "convert it to PKCS#8: openssl pkcs8 -topk8 -in KEY -out NEW.pem")
        }
        do {
            _ = try Self.next(source)
        } catch {
            guard error.isEnd else { throw KeyError(.notAKey, "malformed second PEM block after the key") }
            return
        }
        throw KeyError(
            .notAKey, "more than one PEM block found; expected one",
            hint: "extract the key: openssl pkey \(isPublic ? "-pubin -pubout " : "")-in KEY -out NEW.pem")
    }

    private init(_ label: String, _ contents: SecretBytes, hasHeader: Bool) {
        self.label = label
        self.contents = contents
        self.hasHeader = hasHeader
    }

    private static func next(_ source: borrowing MemoryBIO) throws(OpenSSLFailure) -> PEMBlock {
        var label: UnsafeMutablePointer<CChar>?
        var header: UnsafeMutablePointer<CChar>?
        var data: UnsafeMutablePointer<UInt8>?
        var count = 0
        // The internal buffers of libcrypto can contain a private key. With PEM_FLAG_SECURE, libcrypto overwrites these buffers before it
        // frees them. With PEM_FLAG_EAY_COMPATIBLE, libcrypto allows spaces at line ends, as the command openssl does.
        let flags = UInt32(PEM_FLAG_SECURE | PEM_FLAG_EAY_COMPATIBLE)
        let answer = PEM_read_bio_ex(source.pointer, &label, &header, &data, &count, flags)
        defer {
            CRYPTO_secure_free(label, #file, #line)
            CRYPTO_secure_free(header, #file, #line)
            CRYPTO_secure_clear_free(data, count, #file, #line)
        }
        try succeeded(answer)
        guard let label, let data else { throw OpenSSLFailure() }
        let contents = SecretBytes(copying: UnsafeBufferPointer(start: data, count: count))
        return PEMBlock(String(cString: label), contents, hasHeader: header.map { $0.pointee != 0 } ?? false)
    }

    /// Encodes `der` as a PEM block with this label.
    static func write(_ der: [UInt8], label: String) throws(OpenSSLFailure) -> SecretBytes {
        let output = try MemoryBIO()
        guard PEM_write_bio(output.pointer, label, "", der, der.count) > 0 else { throw OpenSSLFailure.drain() }
        return output.contents()
    }
}

extension OpenSSLFailure {
    /// Whether PEM_read_bio_ex failed because the text contains no further PEM block.
    fileprivate var isEnd: Bool { holds(library: ERR_LIB_PEM, anyOf: PEM_R_NO_START_LINE) }
}

/// Owns a memory BIO, which is a buffer of libcrypto. The PEM functions of libcrypto read from a BIO or write to a BIO, as with a file.
struct MemoryBIO: ~Copyable {
    let pointer: OpaquePointer

    /// Creates a BIO that reads `text`. The BIO does not copy the text, so the text must outlive the BIO.
    init(reading text: UnsafeRawBufferPointer) throws(OpenSSLFailure) {
        pointer = try opened(BIO_new_mem_buf(text.baseAddress, Int32(clamping: text.count)))
    }

    /// Creates an empty BIO for writing. libcrypto overwrites the memory of the BIO when the BIO is released.
    init() throws(OpenSSLFailure) {
        pointer = try opened(BIO_new(BIO_s_secmem()))
    }

    deinit { BIO_free_all(pointer) }

    /// Returns the bytes that were written to the BIO, and removes these bytes from the BIO.
    func contents() -> SecretBytes {
        SecretBytes(capacity: BIO_ctrl_pending(pointer)) { buffer in
            var count = 0
            return BIO_read_ex(pointer, buffer.baseAddress, buffer.count, &count) == 1 ? count : 0
        }
    }
}
