internal import CPKCS11
internal import OTAFirmware
internal import OTASigning

/// A private key in a token.
struct TokenKey {
    let object: TokenObject
    let kind: CK_KEY_TYPE?
    let id: [UInt8]
    let label: String

    init(_ object: TokenObject) {
        self.object = object
        kind = object.number(CKA_KEY_TYPE)
        id = object.id
        label = object.label
    }

    /// The key in messages, such as `"fw" (id 01)`.
    var title: String { "\"\(label)\" (id \(Hex.encode(id)))" }

    /// The URI of the key, without the attribute `pin-source`.
    func uri(modulePath: String?) -> String {
        let token = object.session.token
        return TokenURI.text(token: token.label, serial: token.serial, object: label, id: id, modulePath: modulePath)
    }

    /// The algorithm of the key, from its type (CKA_KEY_TYPE). The value is nil if ``TokenSigner`` does not support the type. The type does
    /// not contain the curve, so the curve of the key can differ from the curve of the algorithm.
    var algorithm: ImagePublicKey.Algorithm? {
        switch kind {
        case CKK_EC_EDWARDS: .ed25519
        case CKK_EC: .ecdsaP256
        default: nil
        }
    }

    private var kindName: String {
        switch kind {
        case CKK_EC_EDWARDS: "EdDSA"
        case CKK_EC: "ECDSA"
        case CKK_RSA: "RSA"
        case Self.mlDSA: "ML-DSA"
        case let kind?: "another algorithm (key type 0x\(String(kind, radix: 16)))"
        case nil: "an unknown algorithm"
        }
    }

    /// The key type CKK_ML_DSA (PKCS#11 3.2, 6.67). otaflash does not sign with such keys, because few tokens have them yet.
    private static let mlDSA: CK_KEY_TYPE = 0x4A

    func wrongAlgorithm(_ expected: Set<ImagePublicKey.Algorithm>) -> KeyError {
        let names = expected.map(\.name).sorted(by: >).joined(separator: " or ")
        return KeyError(
            .wrongAlgorithm,
            "the key \(title) of the token \(object.session.token.title) is for \(kindName); expected \(names)",
            hint: kind == Self.mlDSA
                ? "sign with ML-DSA through a program that uses the token: --key exec:PROGRAM (docs/signing-keys.md)"
                : algorithm == .ecdsaP256
                    ? "this key signs MCUboot images: otaflash sign --as mcuboot; or \(object.session.token.keygenHint)"
                    : object.session.token.keygenHint)
    }

    /// Returns the public key. The public key is in a public key object with the same id as the private key, or in the attribute
    /// CKA_PUBLIC_KEY_INFO of the private key.
    ///
    /// - Throws: `no-such-key` if the token does not have the public key; `wrong-algorithm`, `small-order`, `not-a-key`, `signer-failed`.
    func publicKey() throws(KeyError) -> ImagePublicKey {
        let session = object.session
        let others: [TokenObject]
        do {
            others = try TokenObject.all(CKO_PUBLIC_KEY, in: session)
        } catch {
            throw KeyError(.signerFailed, "the token \(session.token.title): C_FindObjects: \(error)")
        }
        // Several objects can have an empty id. If the id is empty, compare the labels instead.
        let half = others.first {
            $0.number(CKA_KEY_TYPE) == kind && (id.isEmpty ? $0.label == label && $0.id.isEmpty : $0.id == id)
        }
        do throws(KeyError) {
            if let point = half?.bytes(CKA_EC_POINT), !point.isEmpty {
                return try decode(point, half?.bytes(CKA_EC_PARAMS) ?? [])
            }
            for object in [half, object].compactMap({ $0 }) {
                guard let info = object.bytes(CKA_PUBLIC_KEY_INFO), !info.isEmpty else { continue }
                return try ImagePublicKey(subjectPublicKeyInfo: info)
            }
        } catch {
            throw KeyError(
                error.code, "the key \(title) of the token \(session.token.title): \(error.context)", hint: error.hint)
        }
        throw KeyError(
            .noSuchKey, "the token \(session.token.title) has the private key \(title), but not its public key",
            hint: "write the public key into the token: "
                + "pkcs11-tool --module MODULE --login --write-object KEY.pub.der --type pubkey --id \(Hex.encode(id))")
    }

    private func decode(_ point: [UInt8], _ parameters: [UInt8]) throws(KeyError) -> ImagePublicKey {
        guard kind == CKK_EC_EDWARDS else { return try TokenEncoding.p256Key(parameters: parameters, point: point) }
        return ImagePublicKey(try TokenEncoding.edwardsKey(point: point))
    }
}

/// Searches a token for the private key that a URI selects. Exactly one private key with an accepted algorithm must match the URI.
struct TokenKeySearch {
    private let session: TokenSession
    private let uri: TokenURI
    private let algorithms: Set<ImagePublicKey.Algorithm>

    init(_ session: TokenSession, _ uri: TokenURI, _ algorithms: Set<ImagePublicKey.Algorithm>) {
        self.session = session
        self.uri = uri
        self.algorithms = algorithms
    }

    /// Returns the only private key that matches the URI and has one of the accepted algorithms.
    ///
    /// - Throws: `no-such-key` if no key matches the URI; `ambiguous-key` if several keys with an accepted algorithm match;
    ///   `wrong-algorithm` if only keys of other algorithms match; `signer-failed`.
    func key() throws(KeyError) -> TokenKey {
        let all: [TokenKey]
        do {
            all = try TokenObject.all(CKO_PRIVATE_KEY, in: session).map { TokenKey($0) }
        } catch {
            throw KeyError(.signerFailed, "the token \(session.token.title): C_FindObjects: \(error)")
        }
        let fitting = all.filter(fits)
        let usable = fitting.filter { key in key.algorithm.map(algorithms.contains) ?? false }
        if usable.count == 1 { return usable[0] }
        guard usable.isEmpty else {
            let isOneToken = "the URI matches \(usable.count) keys of the token \(session.token.title)"
            throw KeyError(
                .ambiguousKey, "\(isOneToken): \(Self.titles(usable))",
                hint: "use the URI of one of them: --key \(usable[0].uri(modulePath: uri.modulePath).shellQuoted)")
        }
        if let other = fitting.first { throw other.wrongAlgorithm(algorithms) }
        let wanted = uri.object.map { "private key \"\($0)\"" } ?? "private key that matches the URI"
        guard !all.isEmpty else {
            throw KeyError(
                .noSuchKey, "the token \(session.token.title) has no private key",
                hint: session.token.keygenHint)
        }
        throw KeyError(
            .noSuchKey, "the token \(session.token.title) has no \(wanted); it has: \(Self.titles(all))",
            hint: "use the URI of a key in the token: --key \(all[0].uri(modulePath: uri.modulePath).shellQuoted)")
    }

    private func fits(_ key: TokenKey) -> Bool {
        (uri.object == nil || uri.object.map { Array($0.utf8) } == Array(key.label.utf8))
            && (uri.id == nil || uri.id == key.id)
    }

    private static func titles(_ keys: [TokenKey]) -> String { keys.prefix(16).map(\.title).joined(separator: ", ") }
}
