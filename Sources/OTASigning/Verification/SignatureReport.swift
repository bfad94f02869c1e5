public import OTAFirmware

/// The result of the checks of one signature of a bundle.
public struct SignatureReport: Sendable, Equatable {
    public let keyID: KeyID
    public let algorithm: BundleSignature.Algorithm
    /// Whether a trusted key has this ID and its scope covers the bundle.
    public let trusted: Bool
    /// Whether a trusted key has this ID and its scope does not cover the bundle.
    public let isOutOfScope: Bool
    /// Whether the signature is valid; nil if `trusted` is false.
    public let valid: Bool?
}
