public import OTASigning

/// A request for the PIN of one token.
public struct PINRequest: Sendable {
    /// The label of the token. The token chooses this text, so escape it before you print it.
    public let token: String
    /// The serial number of the token. The token chooses this text, so escape it before you print it.
    public let serial: String
    /// Whether the token reports that only one try is left. After one more wrong PIN, the token locks the PIN.
    public let isLastTry: Bool
    /// The value of `pin-source` in the URI: the path of the file that contains the PIN. The value is nil if the URI has no `pin-source`.
    public let file: String?
}

/// The source of the PINs of tokens.
///
/// ``Tokens`` asks the source when it logs in to a token. After a wrong PIN, ``Tokens`` throws an error and does not ask again, because a
/// token allows only a few tries.
public protocol PINSource {
    /// Returns the PIN of a token. The source can throw errors of its own.
    func pin(of request: PINRequest) throws -> SecretBytes

    /// Reports that the user must type the PIN on the keypad of a token.
    ///
    /// - Parameter token: the label of the token. The token chooses this text, so escape it before you print it.
    func willUseKeypad(of token: String)
}
