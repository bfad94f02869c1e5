/// The fixed part of a manifest.
struct ManifestHeader {
    static let length = 64
    static let magic = Array("OTAF".utf8)
    static let formatVersion: UInt8 = 1

    let imageFormat: ImageFormat
    /// M: the length of header and fields, in bytes.
    let manifestLength: Int
    let imageSize: UInt32
    let securityCounter: UInt32
    let created: UInt64
    let imageDigest: SHA256Digest

    /// Reads from offset 0 and refuses each thing where it stands: nothing is measured by a length not yet checked.
    init(reading reader: inout ByteReader) throws(BundleError) {
        try reader.expect(Self.magic, .badMagic, "the magic \"OTAF\" (4f544146)")
        try reader.expect([Self.formatVersion], .unsupportedVersion, "format version 01")
        let format = try reader.next(UInt8.self)
        let manifestLength = try reader.next(UInt16.self)
        guard let imageFormat = ImageFormat(rawValue: format) else {
            throw BundleError(
                .unsupportedImageFormat, offset: 5, expected: "image format 0, 1 or 2", found: "\(format)")
        }
        try Self.check(manifestLength: Int(manifestLength))
        imageSize = try reader.next()
        guard imageSize > 0 else {
            throw BundleError(.badImageSize, offset: 8, expected: "an image of at least 1 byte", found: "0")
        }
        try reader.expect([0, 0, 0, 0], .notZero, "zero")
        securityCounter = try reader.next()
        try reader.expect([0, 0, 0, 0], .notZero, "zero")
        created = try reader.next()
        guard created <= Manifest.latestCreationTime else {
            throw BundleError(
                .badCreationTime, offset: 24, expected: "at most \(Manifest.latestCreationTime) seconds",
                found: "\(created)")
        }
        imageDigest = try SHA256Digest(reading: &reader)
        self.imageFormat = imageFormat
        self.manifestLength = Int(manifestLength)
    }

    static func check(manifestLength length: Int) throws(BundleError) {
        guard (Self.length...Manifest.maximumLength).contains(length) else {
            throw BundleError(
                .badManifestLength, offset: 6,
                expected: "a manifest of \(Self.length) to \(Manifest.maximumLength) bytes", found: "\(length)")
        }
    }
}

extension SHA256Digest {
    fileprivate init(reading reader: inout ByteReader) throws(BundleError) {
        bytes = Array(try reader.next(32))
    }
}
