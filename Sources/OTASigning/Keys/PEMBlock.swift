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
            throw KeyError(.tooLarge, "more than the \(Self.maximumLength) bytes that a key may take")
        }
        let source = try KeyError.translating { () throws(OpenSSLFailure) in try MemoryBIO(reading: text) }
        do {
            (label, contents) = try Self.next(source)
        } catch {
            throw KeyError(.notAKey, error.isEnd ? "there is no PEM block in it" : "its PEM block is damaged")
        }
        guard labels.contains(label) else { throw Self.refusal(of: label, insteadOf: labels.joined(separator: " or ")) }
        do {
            _ = try Self.next(source)
        } catch {
            guard error.isEnd else { throw KeyError(.notAKey, "its PEM block is followed by a damaged one") }
            return
        }
        throw KeyError(.notAKey, "there is more than one PEM block in it")
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
}

extension PEMBlock {
    /// Returns the error for a block with another label.
    private static func refusal(of label: String, insteadOf wanted: String) -> KeyError {
        // The labels of OpenSSL's older formats and of OpenSSH's format name the kind of key.
        switch label {
        case "RSA PRIVATE KEY", "RSA PUBLIC KEY", "DSA PRIVATE KEY", "EC PRIVATE KEY", "EC PARAMETERS":
            let algorithm = label.prefix { $0 != " " }
            return KeyError(.wrongAlgorithm, "it is a key for \(algorithm); only Ed25519 is taken")
        case "OPENSSH PRIVATE KEY":
            return KeyError(
                .notAKey, "its PEM block is \(label), not \(wanted)",
                hint: "make a key with otaflash keygen, or with openssl genpkey -algorithm ed25519")
        default:
            return KeyError(.notAKey, "its PEM block is \(label), not \(wanted)")
        }
    }
}

extension OpenSSLFailure {
    /// Whether the text ended before another block.
    fileprivate var isEnd: Bool { holds(library: ERR_LIB_PEM, anyOf: PEM_R_NO_START_LINE) }
}
