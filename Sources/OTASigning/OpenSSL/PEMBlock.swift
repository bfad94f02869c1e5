internal import COpenSSL

/// The only PEM block in a text. Text before and after it is a comment. A second block is an error, because either of the
/// two could be the right one.
struct PEMBlock {
    /// The text after `BEGIN`.
    let label: String
    /// The DER encoding inside the block.
    let contents: SecretBytes

    /// The longest accepted text, in bytes. A key in PEM has a few hundred bytes.
    static let maximumLength = 64 << 10

    /// Finds the only PEM block in `text`.
    ///
    /// - Throws: `not-a-key`, `wrong-algorithm` or `key-too-large` unless the text has exactly one block, with one of `labels`.
    init(in text: SecretBytes, labels: String...) throws(KeyError) {
        self = try text.withUnsafeBytes { (text) throws(KeyError) in try PEMBlock(in: text, labels: labels) }
    }

    private init(in text: UnsafeRawBufferPointer, labels: [String]) throws(KeyError) {
        guard text.count <= Self.maximumLength else {
            throw KeyError(.tooLarge, "the text has more than \(Self.maximumLength) bytes, the limit for a key")
        }
        let source = try KeyError.translating { () throws(OpenSSLFailure) in try MemoryBIO(reading: text) }
        do {
            (label, contents) = try Self.next(source)
        } catch {
            throw KeyError(.notAKey, error.isEnd ? "no PEM block found" : "malformed PEM block")
        }
        guard labels.contains(label) else {
            throw Self.refusal(of: label, insteadOf: labels.joined(separator: "' or '"))
        }
        do {
            _ = try Self.next(source)
        } catch {
            guard error.isEnd else { throw KeyError(.notAKey, "malformed second PEM block after the key") }
            return
        }
        throw KeyError(.notAKey, "more than one PEM block found; expected one")
    }

    private static func next(_ source: borrowing MemoryBIO) throws(OpenSSLFailure) -> (String, SecretBytes) {
        var label: UnsafeMutablePointer<CChar>?
        var header: UnsafeMutablePointer<CChar>?
        var data: UnsafeMutablePointer<UInt8>?
        var count = 0
        // With this flag libcrypto wipes its intermediate buffers.
        let answer = PEM_read_bio_ex(source.pointer, &label, &header, &data, &count, UInt32(PEM_FLAG_SECURE))
        defer {
            CRYPTO_secure_free(label, #file, #line)
            CRYPTO_secure_free(header, #file, #line)
            CRYPTO_secure_clear_free(data, count, #file, #line)
        }
        try succeeded(answer)
        guard let label, let data else { throw OpenSSLFailure() }
        return (String(cString: label), SecretBytes(copying: UnsafeBufferPointer(start: data, count: count)))
    }

    /// Encodes `der` as PEM.
    static func write(_ der: [UInt8], label: String) throws(OpenSSLFailure) -> SecretBytes {
        let output = try MemoryBIO()
        guard PEM_write_bio(output.pointer, label, "", der, der.count) > 0 else { throw OpenSSLFailure.drain() }
        return output.contents()
    }

    /// Returns the error for a block with another label.
    private static func refusal(of label: String, insteadOf wanted: String) -> KeyError {
        // The labels of OpenSSL's older formats and of OpenSSH's format name the kind of key.
        switch label {
        case "RSA PRIVATE KEY", "RSA PUBLIC KEY", "DSA PRIVATE KEY", "EC PRIVATE KEY", "EC PARAMETERS":
            let algorithm = label.prefix { $0 != " " }
            return KeyError(.wrongAlgorithm, "the key is for \(algorithm); expected Ed25519")
        case "OPENSSH PRIVATE KEY":
            return KeyError(
                .notAKey, "the PEM block is '\(label)'; expected '\(wanted)'",
                hint: "create a key with otaflash keygen or openssl genpkey -algorithm ed25519")
        default:
            return KeyError(.notAKey, "the PEM block is '\(label)'; expected '\(wanted)'")
        }
    }
}

extension OpenSSLFailure {
    /// Whether the text ended before another block.
    fileprivate var isEnd: Bool { holds(library: ERR_LIB_PEM, anyOf: PEM_R_NO_START_LINE) }
}

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
