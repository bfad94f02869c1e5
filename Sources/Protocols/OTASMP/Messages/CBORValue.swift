internal import CCBOR

/// A CBOR value (RFC 8949) in an SMP packet. The keys of each map are texts.
package enum CBORValue: Sendable, Equatable {
    case unsigned(UInt64)
    /// A negative integer. The associated value n means the integer −1 − n.
    case negative(UInt64)
    case bytes([UInt8])
    case text(String)
    case array([CBORValue])
    case map([String: CBORValue])
    case bool(Bool)
    case float(Double)
    /// Null or undefined.
    case null
}

extension CBORValue {
    /// The value as an integer; nil if the value is not an integer or does not fit in an `Int`.
    package var integer: Int? {
        switch self {
        case .unsigned(let number): Int(exactly: number)
        case .negative(let number): Int(exactly: number).map { -1 - $0 }
        default: nil
        }
    }

    package var bytes: [UInt8]? { if case .bytes(let bytes) = self { bytes } else { nil } }
    package var text: String? { if case .text(let text) = self { text } else { nil } }
    /// The text for messages to the user; nil if the value is not a text.
    ///
    /// A device can send a long text. So a text of more than 200 Unicode scalars is cut, and then ends with `…`.
    package var shortText: String? {
        text.map { text in
            let start = text.unicodeScalars.prefix(200)
            return start.endIndex == text.endIndex ? text : String(start) + "…"
        }
    }
    package var bool: Bool? { if case .bool(let bool) = self { bool } else { nil } }
    package var array: [CBORValue]? { if case .array(let items) = self { items } else { nil } }
    package var map: [String: CBORValue]? { if case .map(let entries) = self { entries } else { nil } }

    /// Creates an unsigned integer from a count or an offset. A negative number becomes 0.
    package init(_ count: Int) { self = .unsigned(UInt64(max(count, 0))) }
}

/// The error for bytes that are not a valid CBOR value of an SMP packet.
package struct CBORError: Error, Equatable {
    /// The description of the error for the user, without a full stop.
    package var context: String
}

/// Encodes a CBOR value. Every length is definite, and every integer is as short as possible.
///
/// In a map, the byte strings come first, so that the offset of a chunk follows its data. A serial line without a CRC can lose bytes of the
/// data. The device then completes the packet with the first bytes of the next packet. The offset is then not in its place, and the device
/// refuses the packet. If the data came last, as in the canonical form of RFC 7049, the device would store wrong bytes (observed with
/// MCUboot's serial recovery and `BOOT_SERIAL_RAW_PROTOCOL`). Otherwise the keys are sorted by length, and keys of equal length by their
/// bytes.
package struct CBOREncoder {
    /// The maximum length of an item's head in bytes: one byte for the type, and eight bytes for the number or the length.
    private static let longestHead = 9

    private var bytes: [UInt8] = []

    /// Returns the encoded value.
    package static func encode(_ value: CBORValue) -> [UInt8] {
        var encoder = CBOREncoder()
        encoder.write(value)
        return encoder.bytes
    }

    private mutating func write(_ value: CBORValue) {
        switch value {
        case .unsigned(let number): head { cbor_encode_uint(number, $0, $1) }
        case .negative(let number): head { cbor_encode_negint(number, $0, $1) }
        case .bytes(let run):
            head { cbor_encode_bytestring_start(run.count, $0, $1) }
            bytes += run
        case .text(let text): write(text)
        case .array(let items):
            head { cbor_encode_array_start(items.count, $0, $1) }
            for item in items { write(item) }
        case .map(let entries):
            head { cbor_encode_map_start(entries.count, $0, $1) }
            for (key, value) in entries.sorted(by: Self.precedes) {
                write(key)
                write(value)
            }
        case .bool(let bool): head { cbor_encode_bool(bool, $0, $1) }
        case .float(let number): head { cbor_encode_double(number, $0, $1) }
        case .null: head { cbor_encode_null($0, $1) }
        }
    }

    private mutating func write(_ text: String) {
        head { cbor_encode_string_start(text.utf8.count, $0, $1) }
        bytes += text.utf8
    }

    private mutating func head(_ encode: (UnsafeMutablePointer<UInt8>?, Int) -> Int) {
        bytes += [UInt8](unsafeUninitializedCapacity: Self.longestHead) { buffer, count in
            count = encode(buffer.baseAddress, buffer.count)
        }
    }

    private typealias Entry = (key: String, value: CBORValue)

    private static func precedes(_ left: Entry, _ right: Entry) -> Bool {
        if (left.value.bytes == nil) != (right.value.bytes == nil) { return right.value.bytes == nil }
        let (left, right) = (left.key.utf8, right.key.utf8)
        return left.count == right.count ? left.lexicographicallyPrecedes(right) : left.count < right.count
    }
}
