/// Why a key, a key file or a trust store was not accepted, or not made. Compared on the code.
public struct KeyError: Error, Sendable, Equatable {
    /// Stable: what a script compares.
    public enum Code: String, Sendable, CaseIterable {
        // What it holds.
        case notAKey = "not-a-key"
        case wrongAlgorithm = "wrong-algorithm"
        case smallOrder = "small-order"
        case tooLarge = "key-too-large"
        // The passphrase.
        case passphraseRequired = "passphrase-required"
        case wrongPassphrase = "wrong-passphrase"
        case unusablePassphrase = "unusable-passphrase"
        // The file.
        case noSuchFile = "no-such-file"
        case notAFile = "not-a-file"
        case keyFilePermissions = "key-file-permissions"
        case exists = "output-exists"
        case cannotCreate = "cannot-create"
        case readFailed = "read-failed"
        case writeFailed = "write-failed"
        // The trust store.
        case trustPermissions = "trust-permissions"
        case relativeTrustPath = "relative-trust-path"
        case badTrustScope = "bad-trust-scope"
        case keyIDConflict = "key-id-conflict"
        case noTrustedKey = "no-trusted-key"
        /// libcrypto failed where it should not: out of memory, or broken.
        case cryptography = "crypto-failed"
    }
    public var code: Code
    /// For people: what was seen, without a full stop.
    public var context: String
    /// For people: what to do next, where that is known here.
    public var hint: String?

    public init(_ code: Code, _ context: String, hint: String? = nil) {
        self.code = code
        self.context = context
        self.hint = hint
    }

    public static func == (left: KeyError, right: KeyError) -> Bool { left.code == right.code }

    /// The same error, with the file it is about named.
    func at(_ place: String) -> KeyError { KeyError(code, "\(place): \(context)", hint: hint) }

    /// Runs calls of libcrypto that fail only where libcrypto itself does.
    static func translating<Result: ~Copyable>(
        _ body: () throws(OpenSSLFailure) -> Result
    ) throws(KeyError) -> Result {
        do { return try body() } catch { throw KeyError(.cryptography, "\(error)") }
    }
}
