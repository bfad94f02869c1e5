import OTASigners
import OTASigning

/// Decodes the URI of a key, and the bytes of tokens and programs. The first byte selects the decoder.
enum SignerFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        guard let first = bytes.first else { return nil }
        let rest = Array(bytes.dropFirst())
        switch first {
        case UInt8(ascii: "s"):
            let signature = ProgramSigner.signature(in: rest)
            return signature == nil || signature?.count == 64 ? nil : "a signature does not have 64 bytes"
        case UInt8(ascii: "e"):
            guard let key = try? TokenEncoding.edwardsKey(point: rest) else { return nil }
            return rest.suffix(32) == key.bytes[...] ? nil : "the decoded Ed25519 key differs"
        case UInt8(ascii: "d"):
            guard let der = ECDSASignature.der(rest) else { return nil }
            return (8...72).contains(der.count) && Int(der[1]) == der.count - 2
                ? nil : "the encoded signature is malformed"
        case UInt8(ascii: "p"):
            let parameters = Array(rest.prefix(10))
            guard let key = try? TokenEncoding.p256Key(parameters: parameters, point: Array(rest.dropFirst(10))) else {
                return nil
            }
            return key.subjectPublicKeyInfo.suffix(65) == rest.suffix(65) ? nil : "the decoded ECDSA key differs"
        default: return uri(String(decoding: rest, as: UTF8.self))
        }
    }

    /// The encoded attributes of an accepted URI must result in the same attributes.
    private static func uri(_ text: String) -> String? {
        guard let uri = try? TokenURI(text) else { return nil }
        let encoded = TokenURI.text(
            token: uri.token ?? "", serial: uri.serial ?? "", object: uri.object ?? "", id: uri.id ?? [],
            modulePath: uri.modulePath)
        guard let again = try? TokenURI(encoded) else { return "the encoded URI is refused" }
        let isSame =
            again.token == uri.token ?? "" && again.serial == uri.serial ?? "" && again.object ?? "" == uri.object ?? ""
            && again.id ?? [] == uri.id ?? [] && again.modulePath == uri.modulePath
        return isSame ? nil : "the encoded URI differs"
    }
}
