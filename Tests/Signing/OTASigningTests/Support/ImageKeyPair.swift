import OTASigning
import OTATestSupport
import Testing

/// The kinds of keys that sign MCUboot images.
enum ImageKeyKind: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case ed25519, ecdsaP256, rsa2048, rsa3072

    var testDescription: String { algorithm.name }

    var algorithm: ImagePublicKey.Algorithm {
        switch self {
        case .ed25519: .ed25519
        case .ecdsaP256: .ecdsaP256
        case .rsa2048: .rsa2048
        case .rsa3072: .rsa3072
        }
    }

    /// The value of `imgtool keygen --type`.
    var imgtoolType: String {
        switch self {
        case .ed25519: "ed25519"
        case .ecdsaP256: "ecdsa-p256"
        case .rsa2048: "rsa-2048"
        case .rsa3072: "rsa-3072"
        }
    }
}

/// Creates key files with `openssl`.
enum OpenSSLKeys {
    /// Returns the options of `openssl genpkey` for an algorithm such as `rsa:2048`, `ec:P-256` or `ed25519`.
    static func options(_ name: String) -> [String] {
        let parts = name.split(separator: ":").map(String.init)
        switch parts[0] {
        case "rsa": return ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:\(parts[1])"]
        case "ec": return ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:\(parts[1])"]
        default: return ["-algorithm", parts[0]]
        }
    }

    /// Returns the PEM texts of a new key pair.
    static func pair(_ name: String, _ more: [String] = []) async throws -> (privateKey: [UInt8], publicKey: [UInt8]) {
        let key = try await OpenSSLCommand.run(["genpkey", "-quiet"] + options(name) + more)
        return (key, try await OpenSSLCommand.run("pkey", "-pubout", input: key))
    }

    /// Returns a new key of `kind`.
    static func key(_ kind: ImageKeyKind) async throws -> ImagePrivateKey {
        let name =
            switch kind {
            case .ed25519: "ed25519"
            case .ecdsaP256: "ec:P-256"
            case .rsa2048: "rsa:2048"
            case .rsa3072: "rsa:3072"
            }
        return try ImagePrivateKey(pem: SecretBytes(copying: try await pair(name).privateKey))
    }
}
