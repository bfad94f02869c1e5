import OTAFirmware
import OTASigning
import OTATestSupport
import SystemPackage
import Testing

/// Keys and vectors of ML-DSA.
enum MLDSA {
    /// Whether libcrypto of this process supports ML-DSA (OpenSSL 3.5). `scripts/test-openssl-3.5` runs the tests where it does.
    static let isAvailable = SignatureAlgorithm.mlDSA65.isAvailable

    static let algorithms: [SignatureAlgorithm] = [.mlDSA44, .mlDSA65, .mlDSA87]

    /// Returns a public key whose bytes are `number`, which needs no libcrypto with ML-DSA. Its private key is not known.
    static func publicKey(_ number: UInt8, _ algorithm: SignatureAlgorithm = .mlDSA65) throws -> PublicKey {
        try PublicKey(algorithm: algorithm, bytes: [UInt8](repeating: number, count: algorithm.publicKeyLength))
    }

    /// Returns the private key of a 32-byte seed, as a PKCS#8 structure that has only the seed (RFC 9881, section 6).
    static func privateKey(_ algorithm: SignatureAlgorithm, seed: [UInt8]) throws -> PrivateKey {
        try PrivateKey(pem: SecretBytes(copying: pem(algorithm, seed: seed)))
    }

    static func pem(_ algorithm: SignatureAlgorithm, seed: [UInt8]) -> [UInt8] {
        let info: [UInt8] = [
            0x30, 0x34, 0x02, 0x01, 0x00, 0x30, 0x0B, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03,
            15 + algorithm.rawValue, 0x04, 0x22, 0x80, 0x20,
        ]
        let text = String(decoding: Base64.encode(info + seed), as: UTF8.self)
        let lines = "\(text.prefix(64))\n\(text.dropFirst(64))"
        return Array("-----BEGIN PRIVATE KEY-----\n\(lines)\n-----END PRIVATE KEY-----\n".utf8)
    }

    /// A vector of `ml-dsa-vectors.txt`.
    struct SignVector: Sendable, CustomTestStringConvertible {
        let algorithm: SignatureAlgorithm
        let seed, message, context: [UInt8]
        let publicKeyDigest, signatureDigest: String

        var testDescription: String { "\(algorithm), seed \(Hex.encode(seed.prefix(4))), \(message.count) bytes" }
    }

    struct VerifyVector: Sendable, CustomTestStringConvertible {
        let key: PublicKey
        let isValid: Bool
        let message, context, signature: [UInt8]
        let comment: String

        var testDescription: String { "\(key.algorithm): \(comment)" }
    }

    static let vectors: (sign: [SignVector], verify: [VerifyVector]) = {
        var (sign, verify): ([SignVector], [VerifyVector]) = ([], [])
        var key: PublicKey?
        let path = Repository.root.appending("Tests/Signing/OTASigningTests/Support/ml-dsa-vectors.txt")
        let text = (try? Repository.contents(of: path)) ?? []
        for line in String(decoding: text, as: UTF8.self).split(separator: "\n") where !line.hasPrefix("#") {
            let words = line.split(separator: " ").map(String.init)
            func hex(_ index: Int) -> [UInt8] { words[index] == "-" ? [] : Hex.decode(words[index]) ?? [] }
            func base64(_ index: Int) -> [UInt8] { Base64.decode(Array(words[index].utf8)) ?? [] }
            let algorithm = SignatureAlgorithm.allCases.first { $0.name == words[1] }
            switch words[0] {
            case "sign":
                guard let algorithm else { preconditionFailure("\(line)") }
                sign.append(
                    SignVector(
                        algorithm: algorithm, seed: hex(2), message: hex(3), context: hex(4),
                        publicKeyDigest: words[5], signatureDigest: words[6]))
            case "key":
                key = algorithm.flatMap { try? PublicKey(algorithm: $0, bytes: base64(2)) }
            default:
                guard let key else { preconditionFailure("\(line)") }
                verify.append(
                    VerifyVector(
                        key: key, isValid: words[1] == "valid", message: hex(2), context: hex(3), signature: base64(4),
                        comment: words[5]))
            }
        }
        return (sign, verify)
    }()
}
