public import OTAFirmware

/// What was found of one signature of a bundle.
public struct SignatureReport: Sendable, Equatable {
    public let keyID: KeyID
    public let algorithm: BundleSignature.Algorithm
    /// A trusted key has this id, and may sign this bundle.
    public let trusted: Bool
    /// A trusted key has this id, and its scope does not cover this bundle.
    public let isOutOfScope: Bool
    /// The signature holds; nil where no trusted key is there to check it with.
    public let valid: Bool?
}
