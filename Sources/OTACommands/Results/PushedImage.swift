import OTAFirmware
import OTASigning

/// An MCUboot image that was pushed as it is, and who answers for it.
struct PushedImage: Encodable, Sendable {
    /// Which of the device's images it replaces.
    let imageNumber: UInt32
    let version: String
    /// Bytes that are sent.
    let size: Int
    /// Of them: what an upload is resumed by.
    let sha256: String
    /// `signature`, `bundle` or `consent`.
    let authorization: String
    /// The trusted key that signed it.
    let keyID: String?
    /// Why only the user answers for it: an error code.
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
