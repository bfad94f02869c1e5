/// A parsed bundle. Its format is valid, but its signatures and the digest of its image are not verified.
///
/// `OTASigning.VerifiedBundle` contains a bundle with verified signatures and a verified digest.
public struct SignedBundle: Sendable, Hashable {
    public let envelope: Envelope
    /// The image. Its length is equal to the manifest's image size.
    public let image: [UInt8]

    /// - Throws: `bad-image-size` if the image's length is not equal to the manifest's image size.
    public init(envelope: Envelope, image: [UInt8]) throws(BundleError) {
        guard image.count == Int(envelope.manifest.imageSize) else {
            throw BundleError(
                .badImageSize, offset: 8, expected: "the image's size, \(image.count)",
                found: "\(envelope.manifest.imageSize)")
        }
        self.envelope = envelope
        self.image = image
    }

    /// Parses a whole file.
    ///
    /// To avoid a copy of the image, pass the array with `consume`: `image` then reuses the array's memory.
    public init(parsing bytes: consuming [UInt8]) throws(BundleError) {
        var file = consume bytes
        if file.count <= Manifest.maximumLength, (try? Manifest(parsing: file)) != nil {
            throw BundleError(
                .unsignedManifest, offset: file.count, expected: "signatures and an image after the manifest",
                found: "the end of the file")
        }
        let envelope = try Envelope(parsingPrefix: Array(file.prefix(Envelope.maximumLength)))
        let found = UInt64(file.count)
        guard found <= envelope.bundleLength else {
            throw BundleError(
                .trailingBytes, offset: Int(envelope.bundleLength), expected: "the end of the bundle",
                found: "\(found - envelope.bundleLength) bytes after it")
        }
        guard found == envelope.bundleLength else {
            throw BundleError(
                .truncated, offset: envelope.length, expected: "\(envelope.manifest.imageSize) bytes of image",
                found: "\(found - UInt64(envelope.length))")
        }
        file.removeFirst(envelope.length)
        self.envelope = envelope
        self.image = file
    }

    /// The encoded bundle.
    public var bytes: [UInt8] { envelope.bytes + image }
}
