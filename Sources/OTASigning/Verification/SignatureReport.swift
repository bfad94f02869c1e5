public import OTAFirmware

/// What was found of one signature of a bundle.
public struct SignatureReport: Sendable, Equatable {
    public let keyID: KeyID
    public let algorithm: BundleSignature.Algorithm
    /// A trusted key has this id.
    public let trusted: Bool
    /// The signature holds; nil where no trusted key is there to check it with.
    public let valid: Bool?
}
