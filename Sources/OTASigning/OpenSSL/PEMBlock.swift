internal import COpenSSL

/// The PEM block in a text that contains exactly one block. Other text before and after the block is ignored.
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
        let source = try KeyError.translating { () throws(OpenSSLFailure) in try MemoryBIO(reading: text) }
        do {
            (label, contents, hasHeader) = try Self.next(source)
        } catch {
            throw KeyError(.notAKey, error.isEnd ? "no PEM block found" : "malformed PEM block")
        }
        guard labels.contains(label) else {
            throw Self.refusal(of: label, insteadOf: labels, algorithms)
        }
        do {
            _ = try Self.next(source)
        } catch {
            guard error.isEnd else { throw KeyError(.notAKey, "malformed second PEM block after the key") }
            return
        }
        throw KeyError(.notAKey, "more than one PEM block found; expected one")
    }

    private static func next(_ source: borrowing MemoryBIO) throws(OpenSSLFailure) -> (String, SecretBytes, Bool) {
        var label: UnsafeMutablePointer<CChar>?
        var header: UnsafeMutablePointer<CChar>?
        var data: UnsafeMutablePointer<UInt8>?
        var count = 0
        // The internal buffers of libcrypto can contain a private key. With PEM_FLAG_SECURE, libcrypto overwrites these buffers before it
        // frees them.
        let answer = PEM_read_bio_ex(source.pointer, &label, &header, &data, &count, UInt32(PEM_FLAG_SECURE))
        defer {
            CRYPTO_secure_free(label, #file, #line)
            CRYPTO_secure_free(header, #file, #line)
            CRYPTO_secure_clear_free(data, count, #file, #line)
        }
        try succeeded(answer)
        guard let label, let data else { throw OpenSSLFailure() }
        let contents = SecretBytes(copying: UnsafeBufferPointer(start: data, count: count))
        return (String(cString: label), contents, header.map { $0.pointee != 0 } ?? false)
    }

    /// Encodes `der` as a PEM block with this label.
    static func write(_ der: [UInt8], label: String) throws(OpenSSLFailure) -> SecretBytes {
        let output = try MemoryBIO()
        guard PEM_write_bio(output.pointer, label, "", der, der.count) > 0 else { throw OpenSSLFailure.drain() }
        return output.contents()
    }

    /// Returns the error for a PEM block whose label is not one of the expected labels.
    private static func refusal(of label: String, insteadOf wanted: [String], _ algorithms: String) -> KeyError {
        let expected = wanted.joined(separator: "' or '")
        let isPublicWanted = wanted == ["PUBLIC KEY"]
        // Some labels show the mistake of the user, such as a private key in place of a public key. For these labels, the error contains a
        // special message or hint.
        switch label {
        case _ where isPublicWanted && label.hasSuffix("PRIVATE KEY"):
            return KeyError(
                .notAKey, "this is a private key; expected a public key",
                hint: "write its public key to a file: openssl pkey -in KEY -pubout -out KEY.pub.pem")
        case "RSA PUBLIC KEY" where isPublicWanted && algorithms.contains("RSA"):
            return KeyError(
                .notAKey, "the PEM block is '\(label)'; expected '\(expected)'",
                hint: "convert it: openssl rsa -RSAPublicKey_in -in KEY -pubout -out KEY.pub.pem")
        case "CERTIFICATE" where isPublicWanted:
            return KeyError(
                .notAKey, "the PEM block is '\(label)'; expected '\(expected)'",
                hint: "write its public key to a file: openssl x509 -in FILE -pubkey -noout > KEY.pub.pem")
        case "EC PARAMETERS" where algorithms.contains("ECDSA"):
            return KeyError(
                .notAKey, "the first PEM block is '\(label)'; expected only a key",
                hint: "convert the key to PKCS#8: openssl pkcs8 -topk8 -nocrypt -in KEY -out NEW.pem")
        case "RSA PRIVATE KEY", "RSA PUBLIC KEY", "DSA PRIVATE KEY", "EC PRIVATE KEY", "EC PARAMETERS":
            let algorithm = label.prefix { $0 != " " }
            return KeyError(.wrongAlgorithm, "the key is for \(algorithm); expected \(algorithms)")
        case "OPENSSH PRIVATE KEY":
            return KeyError(
                .notAKey, "the PEM block is '\(label)'; expected '\(expected)'",
                hint: "create a key with otaflash keygen or openssl genpkey -algorithm ed25519")
        default:
            return KeyError(.notAKey, "the PEM block is '\(label)'; expected '\(expected)'")
        }
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
