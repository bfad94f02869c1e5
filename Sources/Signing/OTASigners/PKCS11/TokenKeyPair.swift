internal import CPKCS11
internal import OTAFirmware
internal import OTASigning

/// A new Ed25519 key pair in a token.
struct TokenKeyPair {
    let publicKey: PublicKey
    let privateObject: TokenObject
    private let publicObject: TokenObject

    /// Creates a key pair in the token. The private key cannot be read from the token (CKA_SENSITIVE, not CKA_EXTRACTABLE), and can only
    /// sign.
    ///
    /// The token needs the id of both objects (CKA_ID) before the public key exists. Therefore the objects first get a random id.
    /// Afterwards, this initializer replaces the random id with the key ID (`PublicKey.id`). If the token does not allow this change, the
    /// id remains random.
    ///
    /// - Throws: `output-exists` if the token contains a key with this label; `wrong-algorithm` if the token does not support Ed25519;
    ///   `signer-refused`, `signer-failed`, `signer-protocol`.
    init(in session: TokenSession, label: String) throws(KeyError) {
        try Self.refuseExisting(label, in: session)
        let random = (0..<8).map { _ in UInt8.random(in: .min ... .max) }
        (publicObject, privateObject) = try Self.generate(label, id: random, in: session)
        do throws(KeyError) {
            guard let point = publicObject.bytes(CKA_EC_POINT) else {
                throw KeyError(.signerProtocol, "the token \(session.token.title) does not show the new public key")
            }
            publicKey = try TokenEncoding.edwardsKey(point: point)
        } catch {
            try? privateObject.destroy()
            try? publicObject.destroy()
            throw error
        }
        setIdentifier(publicKey.id.bytes, orKeep: random)
    }

    /// Removes the private key and the public key from the token. Errors are ignored.
    func destroy() {
        try? privateObject.destroy()
        try? publicObject.destroy()
    }

    private static func refuseExisting(_ label: String, in session: TokenSession) throws(KeyError) {
        for kind in [CKO_PRIVATE_KEY, CKO_PUBLIC_KEY] {
            let objects: [TokenObject]
            do { objects = try TokenObject.all(kind, in: session) } catch {
                throw KeyError(.signerFailed, "the token \(session.token.title): C_FindObjects: \(error)")
            }
            guard !objects.contains(where: { $0.label == label }) else {
                throw KeyError(
                    .exists, "the token \(session.token.title) already has a key \"\(label)\"",
                    hint: "use another name: object=NAME; to write the public key of the existing key: "
                        + "otaflash keygen NAME --from URI")
            }
        }
    }

    private static func generate(
        _ label: String, id: [UInt8], in session: TokenSession
    ) throws(KeyError) -> (TokenObject, TokenObject) {
        guard session.supports(CKM_EC_EDWARDS_KEY_PAIR_GEN) else {
            throw KeyError(.wrongAlgorithm, "the token \(session.token.title) cannot create an Ed25519 key")
        }
        do {
            return try generate(label, id, TokenEncoding.edwardsName, session)
        } catch {
            // Some tokens accept only the object identifier of the curve. Different tokens report different errors for the name of the
            // curve, so try the identifier after every error.
            do { return try generate(label, id, TokenEncoding.edwardsIdentifier, session) } catch {
                let code: KeyError.Code =
                    switch error {
                    case CKR_USER_NOT_LOGGED_IN, CKR_SESSION_READ_ONLY, CKR_TOKEN_WRITE_PROTECTED,
                        CKR_ACTION_PROHIBITED:
                        .signerRefused
                    default: .signerFailed
                    }
                throw KeyError(code, "the token \(session.token.title): C_GenerateKeyPair: \(error)")
            }
        }
    }

    private static func generate(
        _ label: String, _ id: [UInt8], _ curve: [UInt8], _ session: TokenSession
    ) throws(ReturnValue) -> (TokenObject, TokenObject) {
        var publicHalf = AttributeList()
        var privateHalf = AttributeList()
        publicHalf.add(CKA_EC_PARAMS, curve)
        publicHalf.add(CKA_VERIFY, flag: true)
        privateHalf.add(CKA_PRIVATE, flag: true)
        privateHalf.add(CKA_SENSITIVE, flag: true)
        privateHalf.add(CKA_EXTRACTABLE, flag: false)
        privateHalf.add(CKA_SIGN, flag: true)
        for type in [CKA_DECRYPT, CKA_UNWRAP, CKA_DERIVE] { privateHalf.add(type, flag: false) }
        func addCommon(to half: inout AttributeList) {
            half.add(CKA_TOKEN, flag: true)
            half.add(CKA_LABEL, Array(label.utf8))
            half.add(CKA_ID, id)
        }
        addCommon(to: &publicHalf)
        addCommon(to: &privateHalf)
        var mechanism = CK_MECHANISM(mechanism: CKM_EC_EDWARDS_KEY_PAIR_GEN, pParameter: nil, ulParameterLen: 0)
        var publicHandle: CK_OBJECT_HANDLE = 0
        var privateHandle: CK_OBJECT_HANDLE = 0
        try publicHalf.withAttributes { (publicHalf) throws(ReturnValue) in
            try privateHalf.withAttributes { (privateHalf) throws(ReturnValue) in
                try session.call(\.C_GenerateKeyPair) {
                    $0(
                        $1, &mechanism, publicHalf.baseAddress, CK_ULONG(publicHalf.count), privateHalf.baseAddress,
                        CK_ULONG(privateHalf.count), &publicHandle, &privateHandle)
                }
            }
        }
        return (
            TokenObject(session: session, handle: publicHandle), TokenObject(session: session, handle: privateHandle)
        )
    }

    private func setIdentifier(_ id: [UInt8], orKeep old: [UInt8]) {
        do {
            try privateObject.set(CKA_ID, id)
            try publicObject.set(CKA_ID, id)
        } catch {
            // Restore the old id of both objects, because both must have the same id: programs use the id to find the public key of a
            // private key.
            try? privateObject.set(CKA_ID, old)
            try? publicObject.set(CKA_ID, old)
        }
    }
}
