/// The signed part of a bundle. It describes the image and states the conditions on which a device accepts the image.
public struct Manifest: Sendable, Hashable {
    /// The length of the longest manifest, in bytes.
    public static let maximumLength = 1024
    /// The last second of the year 9999, in Unix seconds (UTC).
    public static let latestCreationTime: UInt64 = 253_402_300_799

    public let imageFormat: ImageFormat
    /// The image's length in bytes, at least 1.
    public let imageSize: UInt32
    public let securityCounter: UInt32
    /// The creation time in Unix seconds, at most `latestCreationTime`.
    public let created: UInt64
    /// The SHA-256 of the image.
    public let imageDigest: SHA256Digest
    public let version: SemanticVersion
    public let product: ProductName
    /// The hardware revisions that can run the image; nil if all revisions can run it.
    public let hardware: HardwareRevisions?
    /// The lowest battery level at which a device accepts the bundle, in per cent (0 to 100). Nil if the manifest has no such condition.
    public let minimumBattery: UInt8?
    /// The commit or build that the image was made from: 1 to 127 bytes of UTF-8 without control characters. Nil if the manifest does not
    /// contain this field.
    public let source: String?
    /// The lowest version that a device must already run to accept the bundle. Nil if the manifest has no such condition.
    public let requires: RequiredVersion?
    /// The fields with a type that this version of otaflash does not know, in ascending order of the type.
    public let unknownFields: [ManifestField]
    /// The encoded manifest. The signatures cover exactly these bytes. The SHA-256 of these bytes identifies the release.
    public let bytes: [UInt8]

    /// The unknown fields that are marked as critical (`ManifestField.isCritical`). The parser accepts these fields, so that `otaflash
    /// inspect` can show them. A verifier must refuse a bundle with such a field.
    public var unknownCriticalFields: [ManifestField] { unknownFields.filter(\.isCritical) }

    /// Creates a manifest. Throws an error if a value does not follow the rules of docs/bundle-format.md.
    ///
    /// The offset of an error is a position in the encoded new manifest. If `unknownFields` contains a field of a known type, the
    /// initializer checks the field's value and sets the property for this type.
    public init(
        imageFormat: ImageFormat, imageSize: UInt32, securityCounter: UInt32, created: UInt64,
        imageDigest: SHA256Digest, version: SemanticVersion, product: ProductName,
        hardware: HardwareRevisions? = nil, minimumBattery: UInt8? = nil, source: String? = nil,
        requires: RequiredVersion? = nil, unknownFields: [ManifestField] = []
    ) throws(BundleError) {
        var fields = unknownFields
        fields.append(ManifestField(.version, version.text.utf8))
        fields.append(ManifestField(.product, product.text.utf8))
        if let minimumBattery { fields.append(ManifestField(.minimumBattery, [minimumBattery])) }
        if let source { fields.append(ManifestField(.source, source.utf8)) }
        if let hardware { fields.append(ManifestField(.hardware, hardware.encoded)) }
        if let requires { fields.append(ManifestField(.requires, requires.encoded)) }
        fields.sort { $0.type < $1.type }

        let length = fields.reduce(ManifestHeader.length) { $0 + $1.encodedLength }
        try ManifestHeader.check(manifestLength: length)
        var writer = ByteWriter(reservingCapacity: length)
        writer.write(ManifestHeader.magic)
        writer.write(ManifestHeader.formatVersion)
        writer.write(imageFormat.rawValue)
        writer.write(UInt16(truncatingIfNeeded: length))
        writer.write(imageSize)
        writer.writeZeros(4)
        writer.write(securityCounter)
        writer.writeZeros(4)
        writer.write(created)
        writer.write(imageDigest.bytes)
        for field in fields {
            writer.write(field.type)
            writer.write(UInt16(truncatingIfNeeded: field.value.count))
            writer.write(field.value)
        }
        try self.init(parsing: writer.bytes)
    }

    /// Parses a manifest. Throws `trailing-bytes` if `bytes` continues after the manifest.
    public init(parsing bytes: [UInt8]) throws(BundleError) {
        var reader = ByteReader(bytes)
        try self.init(reading: &reader)
        try reader.expectEnd(of: "manifest")
    }

    /// Reads a manifest. The reader must be at offset 0. Afterwards, the reader is at the first byte after the manifest.
    init(reading reader: inout ByteReader) throws(BundleError) {
        let all = reader.unread
        let header = try ManifestHeader(reading: &reader)
        let length = header.manifestLength - ManifestHeader.length
        var fieldReader = ByteReader(try reader.next(length), offset: ManifestHeader.length)
        let fields = try ManifestFields(reading: &fieldReader)
        guard let version = fields.version else {
            throw BundleError(
                .missingVersion, offset: reader.offset, expected: "a version (field 0x0002)", found: "none")
        }
        guard let product = fields.product else {
            throw BundleError(
                .missingProduct, offset: reader.offset, expected: "a product (field 0x8001)", found: "none")
        }
        self.imageFormat = header.imageFormat
        self.imageSize = header.imageSize
        self.securityCounter = header.securityCounter
        self.created = header.created
        self.imageDigest = header.imageDigest
        self.version = version
        self.product = product
        self.hardware = fields.hardware
        self.minimumBattery = fields.minimumBattery
        self.source = fields.source
        self.requires = fields.requires
        self.unknownFields = fields.unknown
        self.bytes = Array(all.prefix(header.manifestLength))
    }

    // The bytes determine all other properties. Therefore equality and the hash need only the bytes.
    public static func == (left: Manifest, right: Manifest) -> Bool { left.bytes == right.bytes }

    public func hash(into hasher: inout Hasher) { hasher.combine(bytes) }
}

/// The first 64 bytes of a manifest.
struct ManifestHeader {
    static let length = 64
    static let magic = Array("OTAF".utf8)
    static let formatVersion: UInt8 = 2

    let imageFormat: ImageFormat
    /// The length of the whole manifest (header and fields) in bytes.
    let manifestLength: Int
    let imageSize: UInt32
    let securityCounter: UInt32
    let created: UInt64
    let imageDigest: SHA256Digest

    /// Reads the header and checks each value. The header must be at offset 0 of the reader.
    init(reading reader: inout ByteReader) throws(BundleError) {
        try reader.expect(Self.magic, .badMagic, "the magic \"OTAF\" (4f544146)")
        let version = try reader.next(UInt8.self)
        guard version == Self.formatVersion else {
            let name = version == 1 ? "1, which only test releases before otaflash 0.1.0 wrote" : "\(version)"
            throw BundleError(
                .unsupportedVersion, offset: 4, expected: "format version \(Self.formatVersion)", found: name)
        }
        let format = try reader.next(UInt8.self)
        let manifestLength = try reader.next(UInt16.self)
        guard let imageFormat = ImageFormat(rawValue: format) else {
            throw BundleError(
                .unsupportedImageFormat, offset: 5, expected: "image format 0, 1, 2 or 3", found: "\(format)")
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

    /// Checks the length of a whole manifest (header and fields), in bytes.
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
