internal import COpenSSL
public import OTAFirmware

extension SignatureAlgorithm {
    /// The names of all algorithms, as a text for messages.
    package static let list = "Ed25519, ML-DSA-44, ML-DSA-65 or ML-DSA-87"

    /// Whether libcrypto in this process supports the algorithm. ML-DSA needs OpenSSL 3.5 or later.
    public var isAvailable: Bool { Self.available.contains(self) }

    private static let available = Set(
        allCases.filter { algorithm in
            guard let context = EVP_PKEY_CTX_new_from_name(nil, algorithm.opensslName, nil) else {
                _ = OpenSSLFailure.drain()
                return false
            }
            EVP_PKEY_CTX_free(context)
            return true
        })

    /// The name of the algorithm in libcrypto.
    var opensslName: String { self == .ed25519 ? "ED25519" : name.uppercased() }

    /// Checks that libcrypto supports the algorithm.
    ///
    /// - Throws: `unsupported-openssl`.
    func expectAvailable() throws(KeyError) {
        guard !isAvailable else { return }
        throw KeyError(
            .unsupportedOpenSSL,
            "\(self) needs OpenSSL 3.5 or later; this machine has \(String(cString: OpenSSL_version(OPENSSL_VERSION_STRING)))",
            hint: "run otaflash on a system with OpenSSL 3.5, such as Debian 13")
    }

    // MARK: Object identifiers

    /// The last bytes of the algorithm's object identifier in DER: 1.3.101.112 (RFC 8410), or 2.16.840.1.101.3.4.3.17 to .19 (RFC 9881).
    private var identifier: [UInt8] {
        let nist: [UInt8] = [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03]
        return switch self {
        case .ed25519: [0x2b, 0x65, 0x70]
        case .mlDSA44: nist + [17]
        case .mlDSA65: nist + [18]
        case .mlDSA87: nist + [19]
        }
    }

    /// Finds the algorithm of an object identifier. libcrypto 3.0 does not know the names of ML-DSA, so this method compares the bytes.
    init?(_ object: OpaquePointer?) {
        guard let object, let start = OBJ_get0_data(object) else { return nil }
        let bytes = UnsafeBufferPointer(start: start, count: OBJ_length(object))
        guard let found = Self.allCases.first(where: { $0.identifier.elementsEqual(bytes) }) else { return nil }
        self = found
    }

    /// The first bytes of every SubjectPublicKeyInfo with a key of this algorithm (RFC 8410, section 4; RFC 9881, section 4). The raw bytes
    /// of the key follow. DER has exactly one encoding for each value, so a comparison with these bytes replaces a parser.
    var publicKeyHeader: [UInt8] {
        let name = DERReader.header(DERReader.identifier, length: identifier.count) + identifier
        let algorithm = DERReader.header(DERReader.sequence, length: name.count) + name
        let key = DERReader.header(DERReader.bitString, length: publicKeyLength + 1) + [0]
        let length = algorithm.count + key.count + publicKeyLength
        return DERReader.header(DERReader.sequence, length: length) + algorithm + key
    }
}
