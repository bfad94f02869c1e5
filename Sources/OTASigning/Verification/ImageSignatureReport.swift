public import OTAFirmware

/// What was found of the signature that an MCUboot image carries.
public struct ImageSignatureReport: Sendable, Equatable {
    /// What imgtool calls the algorithm, such as `ED25519` or `ECDSASIG`.
    public let algorithm: String
    /// It is over the image's bytes and not over their digest.
    public let isPure: Bool
    /// The digest of the public key (SubjectPublicKeyInfo) by which the image names its signer: SHA-256, or SHA-512 in
    /// an image that has SHA-512 throughout. Nil where the image names nobody, or carries the whole key.
    public let keyHash: [UInt8]?
    /// The trusted key that is named; nil: there is none.
    public let keyID: KeyID?
    /// The signature holds; nil where there is no trusted key to check it with, or no digest.
    public let valid: Bool?
}
