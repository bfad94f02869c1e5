internal import CCBOR

/// Writes a value with definite lengths, numbers as short as they go and keys by length, then by byte: the canonical form
/// of RFC 7049, which the published clients write, too.
package struct CBOREncoder {
    /// The longest head: a type and eight bytes.
    private static let longestHead = 9

    private var bytes: [UInt8] = []

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
            for (key, value) in entries.sorted(by: { Self.precedes($0.key, $1.key) }) {
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

    private static func precedes(_ left: String, _ right: String) -> Bool {
        let (left, right) = (left.utf8, right.utf8)
        return left.count == right.count ? left.lexicographicallyPrecedes(right) : left.count < right.count
    }
}
