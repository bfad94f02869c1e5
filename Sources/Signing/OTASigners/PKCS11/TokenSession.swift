internal import CPKCS11
internal import OTASigning

/// A session with one token. `deinit` closes the session. When the last session with a token is closed, the token ends the login.
final class TokenSession {
    let token: TokenDescription
    private let module: TokenModule
    private let handle: CK_SESSION_HANDLE
    /// The PIN of the login. The session keeps the PIN for keys that require a login before each signature. The value is nil if this
    /// session did not ask for a PIN, for example because the user types the PIN on the token's keypad.
    private var pin: SecretBytes?

    /// Opens a session with the token that a URI selects.
    ///
    /// - Parameter writes: whether the session must be able to create objects in the token.
    /// - Throws: `no-such-token`, `ambiguous-key`, `token-unavailable`.
    init(_ module: TokenModule, _ uri: TokenURI, writes: Bool = false) throws(KeyError) {
        let token = try Self.token(uri, in: module)
        self.token = token
        self.module = module
        var handle: CK_SESSION_HANDLE = 0
        let flags = CKF_SERIAL_SESSION | (writes ? CKF_RW_SESSION : 0)
        do {
            try module.call(\.C_OpenSession) { $0(token.slot, flags, nil, nil, &handle) }
        } catch {
            throw KeyError(.tokenUnavailable, "the token \(token.title) cannot be used: C_OpenSession: \(error)")
        }
        self.handle = handle
    }

    deinit { try? module.call(\.C_CloseSession) { $0(handle) } }

    private static func token(_ uri: TokenURI, in module: TokenModule) throws(KeyError) -> TokenDescription {
        let all: [TokenDescription]
        do {
            all = try module.slots().compactMap { module.token(in: $0) }
        } catch {
            throw KeyError(.tokenUnavailable, "\(module.path): C_GetSlotList: \(error)")
        }
        var found = all.filter { $0.matches(uri) }
        // If several tokens match the URI, ignore the tokens that cannot sign. For example, p11-kit's trust module offers tokens that
        // contain only certificates.
        if found.count > 1 {
            found.removeAll { !module.supports(CKM_EDDSA, in: $0.slot) && !module.supports(CKM_ECDSA, in: $0.slot) }
        }
        if found.count == 1 { return found[0] }
        let titles = (found.isEmpty ? all : found).prefix(16).map(\.title).joined(separator: ", ")
        guard found.isEmpty else {
            throw KeyError(
                .ambiguousKey, "the URI matches \(found.count) tokens: \(titles)",
                hint: "add the serial number of the token to the URI: serial=\(TokenURI.encode(found[0].serial.utf8))")
        }
        let name = uri.token.map { "no token \"\($0)\"" } ?? "no token that matches the URI"
        guard !all.isEmpty else {
            throw KeyError(
                .noSuchToken, "\(name): \(module.path) finds no token",
                hint: "insert the token; or give another module: module-path=PATH in the URI")
        }
        throw KeyError(
            .noSuchToken, "\(name); there are: \(titles)",
            hint: "use the label of one of these tokens in the URI: token=\(TokenURI.encode(all[0].label.utf8))")
    }

    /// Calls a function of the module with this session.
    func call<Function>(
        _ function: KeyPath<CK_FUNCTION_LIST, Function?>, _ body: (Function, CK_SESSION_HANDLE) -> CK_RV
    ) throws(ReturnValue) {
        try module.call(function) { body($0, handle) }
    }

    func supports(_ mechanism: CK_MECHANISM_TYPE) -> Bool { module.supports(mechanism, in: token.slot) }

    // MARK: Login

    /// Logs in to the token as the normal user. Does nothing if the token requires no login, or if this process is already logged in.
    ///
    /// - Parameter file: the value of `pin-source` in the URI: the path of the file that contains the PIN. The value is nil if the URI has
    ///   no `pin-source`. This method passes the path to `source`.
    /// - Throws: `pin-needed`, `wrong-pin`, `pin-locked`, `signer-failed`; the errors of the source of the PIN.
    func logIn(_ source: any PINSource, file: String?) throws {
        guard token.has(CKF_LOGIN_REQUIRED), !isLoggedIn else { return }
        guard !token.has(CKF_USER_PIN_LOCKED) else { throw PINFailure.locked(token) }
        if token.has(CKF_PROTECTED_AUTHENTICATION_PATH) {
            source.willUseKeypad(of: token.label)
        } else {
            pin = try source.pin(
                of: PINRequest(
                    token: token.label, serial: token.serial, isLastTry: token.has(CKF_USER_PIN_FINAL_TRY), file: file))
        }
        try authenticate(as: CKU_USER)
    }

    /// Logs in again for one signature. Call this method for a key with the attribute CKA_ALWAYS_AUTHENTICATE, between C_SignInit and
    /// C_Sign.
    ///
    /// - Throws: `wrong-pin`, `pin-locked`, `signer-failed`.
    func authenticateForSignature() throws(KeyError) { try authenticate(as: CKU_CONTEXT_SPECIFIC) }

    private var isLoggedIn: Bool {
        var info = CK_SESSION_INFO()
        guard (try? call(\.C_GetSessionInfo) { $0($1, &info) }) != nil else { return false }
        return [CKS_RO_USER_FUNCTIONS, CKS_RW_USER_FUNCTIONS].contains(info.state)
    }

    /// Calls C_Login. If `pin` is nil, the token asks for the PIN on its own keypad.
    private func authenticate(as user: CK_USER_TYPE) throws(KeyError) {
        do {
            guard let pin else { return try call(\.C_Login) { $0($1, user, nil, 0) } }
            try pin.withUnsafeBytes { (bytes) throws(ReturnValue) in
                let text = UnsafeMutableRawBufferPointer(mutating: bytes).bindMemory(to: CK_UTF8CHAR.self)
                try call(\.C_Login) { $0($1, user, text.baseAddress, CK_ULONG(text.count)) }
            }
        } catch {
            guard error != ReturnValue(CKR_USER_ALREADY_LOGGED_IN) else { return }
            throw PINFailure.error(for: error, of: module.token(in: token.slot) ?? token)
        }
    }
}

/// The errors of C_Login.
private enum PINFailure {
    static func locked(_ token: TokenDescription) -> KeyError {
        KeyError(.pinLocked, "the PIN of the token \(token.title) is locked")
    }

    /// Returns the error for a failed call of C_Login.
    ///
    /// - Parameter token: the description of the token, read after the failed login. The flags in the description show whether tries are
    ///   left.
    static func error(for result: ReturnValue, of token: TokenDescription) -> KeyError {
        switch result {
        case CKR_PIN_INCORRECT, CKR_PIN_INVALID, CKR_PIN_LEN_RANGE:
            let rest =
                if token.has(CKF_USER_PIN_LOCKED) {
                    "; the token has locked it"
                } else if token.has(CKF_USER_PIN_FINAL_TRY) {
                    "; the token reports: one try is left"
                } else if token.has(CKF_USER_PIN_COUNT_LOW) {
                    "; the token reports: few tries are left"
                } else {
                    ""
                }
            return KeyError(.wrongPIN, "the PIN of the token \(token.title) is wrong\(rest)")
        case CKR_PIN_LOCKED: return locked(token)
        case CKR_PIN_EXPIRED: return KeyError(.pinLocked, "the PIN of the token \(token.title) has expired")
        case CKR_USER_PIN_NOT_INITIALIZED:
            return KeyError(
                .pinNeeded, "the token \(token.title) has no user PIN",
                hint: "set it with the tool of the token's vendor, or: "
                    + "pkcs11-tool --module MODULE --login --login-type so --init-pin")
        case CKR_FUNCTION_CANCELED:
            return KeyError(.pinNeeded, "the PIN was not entered on the keypad of the token \(token.title)")
        default: return KeyError(.signerFailed, "the token \(token.title): C_Login: \(result)")
        }
    }
}
