/// An error about a key, a key file or a trust store. Two errors are equal if their codes are equal.
public struct KeyError: Error, Sendable, Equatable {
    /// Identifies the error for scripts. The values are stable.
    public enum Code: String, Sendable, CaseIterable {
        // Contents of the key.
        case notAKey = "not-a-key"
        case wrongAlgorithm = "wrong-algorithm"
        case smallOrder = "small-order"
        case tooLarge = "key-too-large"
        // Passphrase.
        case passphraseRequired = "passphrase-required"
        case wrongPassphrase = "wrong-passphrase"
        case unusablePassphrase = "unusable-passphrase"
        // Key file.
        case noSuchFile = "no-such-file"
        case notAFile = "not-a-file"
        case keyFilePermissions = "key-file-permissions"
        case exists = "output-exists"
        case cannotCreate = "cannot-create"
        case readFailed = "read-failed"
        case writeFailed = "write-failed"
        // Trust store.
        case trustPermissions = "trust-permissions"
        case relativeTrustPath = "relative-trust-path"
        case badTrustScope = "bad-trust-scope"
        case keyIDConflict = "key-id-conflict"
        case noTrustedKey = "no-trusted-key"
        /// libcrypto failed unexpectedly, for example because memory ran out.
        case cryptography = "crypto-failed"
    }
    public var code: Code
    /// Describes the problem to the user, without a full stop at the end.
    public var context: String
    /// The next step for the user, or nil if it depends on more than the key.
    public var hint: String?

    public init(_ code: Code, _ context: String, hint: String? = nil) {
        self.code = code
        self.context = context
        self.hint = hint
    }

    public static func == (left: KeyError, right: KeyError) -> Bool { left.code == right.code }

    /// Returns the same error with the file's path before the context.
    func at(_ place: String) -> KeyError { KeyError(code, "\(place): \(context)", hint: hint) }

    /// Runs libcrypto calls that fail only if libcrypto itself fails, and throws `crypto-failed` then.
    static func translating<Result: ~Copyable>(
        _ body: () throws(OpenSSLFailure) -> Result
    ) throws(KeyError) -> Result {
        do { return try body() } catch { throw KeyError(.cryptography, "\(error)") }
    }
}
