/// A bundle as it was read: its form is right, and that is all. Neither a signature nor the image's digest was checked;
/// that is what makes a `VerifiedBundle` of it.
public struct SignedBundle: Sendable, Hashable {
    public let envelope: Envelope
    /// As many bytes as the manifest says.
    public let image: [UInt8]

    /// - Throws: `bad-image-size` unless the image is as long as the manifest says.
    public init(envelope: Envelope, image: [UInt8]) throws(BundleError) {
        guard image.count == Int(envelope.manifest.imageSize) else {
            throw BundleError(
                .badImageSize, offset: 8, expected: "the image's size, \(image.count)",
                found: "\(envelope.manifest.imageSize)")
        }
        self.envelope = envelope
        self.image = image
    }

    /// Reads a whole file. Give the array away (`consume`) and its memory becomes the image's.
    public init(parsing bytes: consuming [UInt8]) throws(BundleError) {
        var file = consume bytes
        let envelope = try Envelope(parsingPrefix: Array(file.prefix(Envelope.maximumLength)))
        let found = UInt64(file.count)
        guard found <= envelope.bundleLength else {
            throw BundleError(
                .trailingBytes, offset: Int(envelope.bundleLength), expected: "the end of the bundle",
                found: "\(found - envelope.bundleLength) more bytes")
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

    public var bytes: [UInt8] { envelope.bytes + image }
}
