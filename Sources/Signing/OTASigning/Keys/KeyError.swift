internal import OTAFirmware

/// An error in a key, a key file or a trust store. Two errors are equal if their codes are equal.
public struct KeyError: Error, Sendable, Equatable {
    /// Identifies the error for scripts. The raw values do not change between releases.
    public enum Code: String, Sendable, CaseIterable {
        // The next errors concern the contents of a key.
        case notAKey = "not-a-key"
        case wrongAlgorithm = "wrong-algorithm"
        case smallOrder = "small-order"
        case tooLarge = "key-too-large"
        // The next errors concern a passphrase.
        case passphraseRequired = "passphrase-required"
        case wrongPassphrase = "wrong-passphrase"
        case unusablePassphrase = "unusable-passphrase"
        // The next errors concern a key file.
        case noSuchFile = "no-such-file"
        case notAFile = "not-a-file"
        case keyFilePermissions = "key-file-permissions"
        case exists = "output-exists"
        case cannotCreate = "cannot-create"
        case readFailed = "read-failed"
        case writeFailed = "write-failed"
        // The next errors concern a private key outside this process: in a token, a program or an SSH agent, or on another machine.
        /// `SSH_AUTH_SOCK` is not set, or the connection to the SSH agent failed.
        case noAgent = "no-agent"
        case badKeyURI = "bad-key-uri"
        case tokenUnavailable = "token-unavailable"
        case noSuchToken = "no-such-token"
        case noSuchKey = "no-such-key"
        /// The URI of a key matches several tokens or several keys.
        case ambiguousKey = "ambiguous-key"
        case pinNeeded = "pin-needed"
        case wrongPIN = "wrong-pin"
        case pinLocked = "pin-locked"
        /// The token, the program or the SSH agent failed before it returned a signature.
        case signerFailed = "signer-failed"
        /// The token or the SSH agent refuses to sign with this key, or refuses a message of this length.
        case signerRefused = "signer-refused"
        /// The signer returned bytes that are not a valid signature or key.
        case signerProtocol = "signer-protocol"
        /// A signature that another machine created is not valid for any of the given public keys, or a public key has no signature.
        case signatureUnmatched = "signature-unmatched"
        /// The installed libcrypto does not support the algorithm of the key.
        case unsupportedOpenSSL = "unsupported-openssl"
        /// A call of libcrypto failed unexpectedly, for example because no memory was available.
        case cryptography = "crypto-failed"
        // The next errors concern a trust store.
        case trustPermissions = "trust-permissions"
        case relativeTrustPath = "relative-trust-path"
        case badTrustScope = "bad-trust-scope"
        case badTrustPolicy = "bad-trust-policy"
        case keyIDConflict = "key-id-conflict"
        case noTrustedKey = "no-trusted-key"
    }
    public var code: Code
    /// A description of the problem for the user, without a full stop at the end.
    public var context: String
    /// The recommended next step, as a text for the user. The value is nil if there is no recommendation.
    public var hint: String?

    public init(_ code: Code, _ context: String, hint: String? = nil) {
        self.code = code
        self.context = context
        self.hint = hint
    }

    public static func == (left: KeyError, right: KeyError) -> Bool { left.code == right.code }

    /// Returns this error with `place`, such as the path of a file, in front of the text of `context`. In the commands of `hint`, `place`
    /// replaces the word `KEY`.
    package func at(_ place: String) -> KeyError {
        let commands = hint.map { $0.replacing(/\bKEY\b(?!\.)/, with: place.shellQuoted) }
        return KeyError(code, "\(place): \(context)", hint: commands)
    }

    /// Runs `body`, which calls libcrypto, and converts all errors of `body` to `crypto-failed`. Do not use this method if wrong input from
    /// the user can cause these errors, because the message of `crypto-failed` does not describe the user's mistake.
    static func translating<Result: ~Copyable>(
        _ body: () throws(OpenSSLFailure) -> Result
    ) throws(KeyError) -> Result {
        do { return try body() } catch { throw KeyError(.cryptography, "\(error)") }
    }
}

extension String {
    /// The string as one word of a shell command, in quotes if necessary. The result contains only printable characters.
    package var shellQuoted: String {
        if !isEmpty, utf8.allSatisfy(Self.isPlain) { return self }
        if !isPrintable { return ansiQuoted }
        return "'" + split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
    }

    /// The string in the shell's quotes `$'…'` (POSIX.1-2024, 2.2.4). Every octal escape has exactly three digits. After a shorter escape,
    /// the shell could read the next character of the string as a further digit.
    private var ansiQuoted: String {
        var word = "$'"
        for scalar in unicodeScalars {
            switch scalar {
            case "'", "\\": word += "\\\(scalar)"
            case _ where scalar.isUnprintable: word += String(scalar).utf8.map(Self.octal).joined()
            default: word.unicodeScalars.append(scalar)
            }
        }
        return word + "'"
    }

    private static func octal(_ byte: UInt8) -> String {
        "\\\(byte >> 6)\(byte >> 3 & 7)\(byte & 7)"
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"):
            true
        default: "/._-+@%=:,".utf8.contains(byte)
        }
    }
}
