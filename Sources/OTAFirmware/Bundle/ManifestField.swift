/// A field of a manifest as it is encoded: type and length, little-endian, and the value.
public struct ManifestField: Sendable, Hashable {
    /// Type and length.
    static let headerLength = 4

    /// The whole u16, by which fields are sorted.
    public let type: UInt16
    public let value: [UInt8]

    public init(type: UInt16, value: [UInt8]) {
        self.type = type
        self.value = value
    }

    init(_ type: ManifestFieldType, _ value: some Sequence<UInt8>) {
        self.init(type: type.rawValue, value: Array(value))
    }

    /// A reader that does not know a critical field refuses the bundle.
    public var isCritical: Bool { type & 0x8000 != 0 }

    var encodedLength: Int { Self.headerLength + value.count }
}

/// The fields this version of the format knows. 0x8007 and 0x8009 are reserved, hence unknown.
enum ManifestFieldType: UInt16 {
    case version = 0x0002
    case minimumBattery = 0x0004
    case source = 0x0006
    case product = 0x8001
    case hardware = 0x8003
    case requires = 0x8005
}
