/// The contents of an update file that a verifier has accepted: `UpdateFile.verified(by:)` or `UpdateFile.acceptedUnverified(by:)` of OTAClient.
///
/// otaflash sends only values of this type to a device.
public enum VerifiedUpdate: Sendable {
    case bundle(VerifiedBundle)
    /// The accepted images. The array is not empty.
    case images([NumberedImage])
}

/// A verified MCUboot image, and the number of the device's image that this image replaces.
public struct NumberedImage: Sendable {
    public let number: UInt32
    public let image: VerifiedImage

    package init(number: UInt32, image: VerifiedImage) {
        self.number = number
        self.image = image
    }
}
