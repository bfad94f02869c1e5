/// A field of a manifest. An encoded field consists of the type (u16), the length of the value (u16) and the value. The integers are
/// little-endian.
public struct ManifestField: Sendable, Hashable {
    /// The size of the encoded type and length together, in bytes.
    static let headerLength = 4

    /// The type, including the critical bit 0x8000. The fields of a manifest are sorted by this number.
    public let type: UInt16
    public let value: [UInt8]

    public init(type: UInt16, value: [UInt8]) {
        self.type = type
        self.value = value
    }

    init(_ type: ManifestFieldType, _ value: some Sequence<UInt8>) {
        self.init(type: type.rawValue, value: Array(value))
    }

    /// Whether the field is critical. If a reader does not know the type of a critical field, the reader must refuse the bundle.
    public var isCritical: Bool { type & 0x8000 != 0 }

    var encodedLength: Int { Self.headerLength + value.count }
}

/// The types of fields that this version of otaflash knows. The format reserves the types 0x8007 and 0x8009 for later versions. This
/// version handles them like all other unknown types.
enum ManifestFieldType: UInt16 {
    case version = 0x0002
    case minimumBattery = 0x0004
    case source = 0x0006
    case product = 0x8001
    case hardware = 0x8003
    case requires = 0x8005
}

/// The parsed fields of a manifest: the decoded known fields, and the unknown fields.
struct ManifestFields {
    private(set) var version: SemanticVersion?
    private(set) var product: ProductName?
    private(set) var hardware: HardwareRevisions?
    private(set) var minimumBattery: UInt8?
    private(set) var source: String?
    private(set) var requires: RequiredVersion?
    private(set) var unknown: [ManifestField] = []

    /// Reads fields until the reader has no more bytes.
    init(reading reader: inout ByteReader) throws(BundleError) {
        var lastType: UInt16?
        while reader.remaining > 0 {
            let start = reader.offset
            let type = try reader.next(UInt16.self, orElse: .fieldOverrun)
            if let lastType, type <= lastType {
                throw BundleError(
                    .fieldOrder, offset: start, expected: "a field type above \(lastType)", found: "\(type)")
            }
            lastType = type
            let length = try reader.next(UInt16.self, orElse: .fieldOverrun)
            let value = try reader.next(Int(length), orElse: .fieldOverrun)
            try take(type, value, at: start + ManifestField.headerLength)
        }
    }

    private mutating func take(_ type: UInt16, _ value: ArraySlice<UInt8>, at offset: Int) throws(BundleError) {
        func decode<Value>(
            _ code: BundleError.Code, _ rule: String, _ decode: (ArraySlice<UInt8>) -> Value?
        ) throws(BundleError) -> Value {
            guard let decoded = decode(value) else {
                throw BundleError(code, offset: offset, expected: rule, found: quoted(value))
            }
            return decoded
        }

        switch ManifestFieldType(rawValue: type) {
        case .version:
            version = try decode(.badVersion, SemanticVersion.rule) { text($0).flatMap { SemanticVersion($0) } }
        case .product:
            product = try decode(.badProduct, ProductName.rule) { text($0).flatMap { ProductName($0) } }
        case .minimumBattery:
            minimumBattery = try decode(.badMinimumBattery, "one byte, 0 to 100") { value in
                value.first.flatMap { value.count == 1 && $0 <= 100 ? $0 : nil }
            }
        case .source:
            source = try decode(.badSource, "1 to 127 bytes of UTF-8 without control characters") { value in
                (1...127).contains(value.count) ? harmlessText(value) : nil
            }
        case .hardware:
            hardware = try decode(.badHardware, HardwareRevisions.encodingRule) { HardwareRevisions(encoded: $0) }
        case .requires:
            requires = try decode(.badRequiredVersion, "three u32, 12 bytes") { RequiredVersion(encoded: $0) }
        case nil:
            unknown.append(ManifestField(type: type, value: Array(value)))
        }
    }
}

private func text(_ value: ArraySlice<UInt8>) -> String? { String(validating: value, as: UTF8.self) }
