import OTAClient
import OTAFirmware
import OTASigning

/// A pushed MCUboot image and the authorization to install it.
struct PushedImage: Encodable, Sendable {
    /// The number of the image on the device that it replaces.
    let imageNumber: UInt32
    let version: String
    /// The number of bytes to send.
    let size: Int
    /// The digest of these bytes; it identifies the upload to resume.
    let sha256: String
    /// `signature`, `bundle` or `consent` (`--unverified-image`).
    let authorization: String
    /// The id of the trusted key that signed the image or its bundle.
    let keyID: String?
    /// The error code of the failed verification, for `consent`.
    let unverified: String?

    init(_ numbered: NumberedImage) {
        let image = numbered.image
        imageNumber = numbered.number
        version = image.image.version.description
        size = image.bytes.count
        sha256 = image.fileDigest.description
        switch image.authorization {
        case .signature(let key): (authorization, keyID, unverified) = ("signature", key.description, nil)
        case .bundle(let keys): (authorization, keyID, unverified) = ("bundle", keys.first?.description, nil)
        case .consent(let consent): (authorization, keyID, unverified) = ("consent", nil, consent.reason.rawValue)
        }
    }
}
