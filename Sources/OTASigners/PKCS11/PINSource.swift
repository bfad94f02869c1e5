public import OTASigning

/// The token that requires a PIN.
public struct PINRequest: Sendable {
    /// The label of the token. It is not trusted text.
    public let token: String
    /// The serial number of the token. It is not trusted text.
    public let serial: String
    /// Whether a wrong PIN locks the token.
    public let isLastTry: Bool
    /// The path of the file that contains the PIN, from the URI.
    public let file: String?
}

/// The source of the PINs of tokens.
///
/// A source is asked at most once for each token in a run, because each wrong PIN uses one of the token's few tries.
public protocol PINSource {
    /// Returns the PIN of a token. The errors are the errors of the source.
    func pin(of request: PINRequest) throws -> SecretBytes

    /// Reports that the user must type the PIN on the keypad of a token.
    ///
    /// - Parameter token: the label of the token. It is not trusted text.
    func willUseKeypad(of token: String)
}
