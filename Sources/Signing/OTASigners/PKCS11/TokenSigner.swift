internal import CPKCS11
internal import DescriptorIO
internal import OTAFirmware
public import OTASigning

/// An Ed25519 or ECDSA P-256 key in a token. The private key never leaves the token.
public final class TokenSigner: ImageSigner, @unchecked Sendable {  // The lock protects the session.
    public let publicKey: ImagePublicKey
    /// The URI of the key, without the attribute `pin-source`.
    public let location: String

    private let key: TokenObject
    private let lock = Lock()

    fileprivate init(_ key: TokenObject, _ publicKey: ImagePublicKey, _ location: String) {
        self.key = key
        self.publicKey = publicKey
        self.location = location
    }

    /// Returns the key as a signer of bundles.
    ///
    /// - Throws: `wrong-algorithm` for an ECDSA key.
    public func bundleSigner() throws(KeyError) -> any Signer {
        guard let publicKey = publicKey.bundleKey else {
            throw KeyError(
                .wrongAlgorithm, "the key is for \(publicKey.algorithm.name); a bundle requires Ed25519",
                hint: "this key signs MCUboot images: otaflash sign --as mcuboot; or \(key.session.token.keygenHint)")
        }
        return BundleTokenSigner(publicKey: publicKey, key: self)
    }

    /// Signs `message` in the token.
    ///
    /// - Throws: `wrong-algorithm` if the token does not support signatures with the algorithm of this key; `signer-refused` if the token
    ///   refuses the key, or a message of this length; `wrong-pin`, `pin-locked`; `signer-failed`, `signer-protocol`.
    public func sign(_ message: [UInt8]) throws(KeyError) -> [UInt8] {
        guard publicKey.algorithm != .ed25519 else { return try sign(message, CKM_EDDSA) }
        let raw = try sign(SHA256.digest(of: message).bytes, CKM_ECDSA)
        guard let signature = ECDSASignature.der(raw) else {
            throw KeyError(.signerProtocol, "the token returned an ECDSA signature of \(raw.count) bytes; expected 64")
        }
        return signature
    }

    private func sign(_ data: [UInt8], _ type: CK_MECHANISM_TYPE) throws(KeyError) -> [UInt8] {
        try lock.locked { () throws(KeyError) in
            var mechanism = CK_MECHANISM(mechanism: type, pParameter: nil, ulParameterLen: 0)
            let session = key.session
            do throws(ReturnValue) {
                try session.call(\.C_SignInit) { $0($1, &mechanism, key.handle) }
            } catch {
                throw failure("C_SignInit", error)
            }
            if key.flag(CKA_ALWAYS_AUTHENTICATE) { try session.authenticateForSignature() }
            var data = data
            var signature = [UInt8](repeating: 0, count: 1024)
            var count = CK_ULONG(signature.count)
            do throws(ReturnValue) {
                try session.call(\.C_Sign) { $0($1, &data, CK_ULONG(data.count), &signature, &count) }
            } catch {
                throw failure("C_Sign", error)
            }
            return Array(signature.prefix(Int(min(count, 1024))))
        }
    }

    private func failure(_ function: String, _ result: ReturnValue) -> KeyError {
        let token = key.session.token.title
        switch result {
        case CKR_MECHANISM_INVALID:
            let mechanism = publicKey.algorithm == .ed25519 ? "EdDSA" : "ECDSA"
            return KeyError(.wrongAlgorithm, "the token \(token) does not support \(mechanism): \(function): \(result)")
        case CKR_USER_NOT_LOGGED_IN, CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_KEY_TYPE_INCONSISTENT, CKR_DATA_LEN_RANGE,
            CKR_DATA_INVALID, CKR_ACTION_PROHIBITED:
            return KeyError(.signerRefused, "the token \(token) refused to sign: \(function): \(result)")
        default: return KeyError(.signerFailed, "the token \(token): \(function): \(result)")
        }
    }
}

/// An Ed25519 key in a token, as a signer of bundles.
private struct BundleTokenSigner: Signer {
    let publicKey: PublicKey
    let key: TokenSigner

    func sign(_ message: [UInt8], in domain: SignatureDomain) throws(KeyError) -> [UInt8] { try key.sign(message) }
}

/// Finds and creates keys in tokens. Use one object of this class for all keys. The object loads each PKCS#11 module only once, and logs in
/// to each token only once.
public final class Tokens {
    private let source: any PINSource
    private let defaultModule: String?
    private var modules: [String: TokenModule] = [:]
    /// The open sessions, by the path of the module and the slot of the token. The sessions remain open, because a token ends the login
    /// when its last session is closed.
    private var sessions: [String: [CK_SLOT_ID: TokenSession]] = [:]

    /// - Parameters:
    ///   - defaultModule: the path of the module for URIs without `module-path`. If the path is nil, the module is p11-kit's proxy
    ///     (`TokenModule.proxy`).
    ///   - source: the source of the PINs.
    public init(defaultModule: String?, pins source: any PINSource) {
        self.defaultModule = defaultModule
        self.source = source
    }

    /// Finds a private key and logs in to its token.
    ///
    /// - Parameter algorithms: the accepted algorithms. If several keys match the URI, keys of other algorithms are ignored.
    /// - Throws: `KeyError`; the errors of the source of the PIN.
    public func signer(
        at uri: TokenURI, for algorithms: Set<ImagePublicKey.Algorithm> = [.ed25519, .ecdsaP256]
    ) throws -> TokenSigner {
        let session = try session(at: uri)
        let key = try TokenKeySearch(session, uri, algorithms).key()
        return TokenSigner(key.object, try key.publicKey(), key.uri(modulePath: uri.modulePath))
    }

    /// Creates an Ed25519 key pair inside a token.
    ///
    /// - Parameters:
    ///   - uri: the URI of the token. The attribute `object` of the URI is the label of the new key.
    ///   - use: stores the public key, for example in a file. If `use` throws an error, this method deletes the new key pair in the token.
    /// - Throws: `KeyError`; the errors of the source of the PIN and of `use`.
    public func generate<Result>(
        at uri: TokenURI, _ use: (_ publicKey: PublicKey, _ location: String) throws -> Result
    ) throws -> Result {
        guard let label = uri.object, !label.isEmpty, uri.id == nil else {
            let problem = uri.id == nil ? "the URI does not name the new key" : "the id of a new key cannot be chosen"
            throw KeyError(
                .badKeyURI, problem,
                hint: uri.id == nil ? "add the name: object=NAME" : "remove id from the URI: the token gets the key id")
        }
        let session = try session(at: uri, writes: true)
        let pair = try TokenKeyPair(in: session, label: label)
        do {
            return try use(pair.publicKey, TokenKey(pair.privateObject).uri(modulePath: uri.modulePath))
        } catch {
            pair.destroy()
            throw error
        }
    }

    private func session(at uri: TokenURI, writes: Bool = false) throws -> TokenSession {
        let path = uri.modulePath ?? defaultModule ?? TokenModule.proxy
        let module = try modules[path] ?? TokenModule(path)
        modules[path] = module
        let session = try TokenSession(module, uri, writes: writes)
        let slot = session.token.slot
        if let open = sessions[path]?[slot], !writes { return open }
        try session.logIn(source, file: uri.pinSource)
        sessions[path, default: [:]][slot] = session
        return session
    }
}
