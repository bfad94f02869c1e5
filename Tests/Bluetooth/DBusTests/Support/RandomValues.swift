import DBus

/// Random values of every type except descriptors. The same seed gives the same values.
struct RandomValues {
    struct Generator: RandomNumberGenerator {
        var state: UInt64

        /// SplitMix64.
        mutating func next() -> UInt64 {
            state &+= 0x9e37_79b9_7f4a_7c15
            var mixed = state
            mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
            return mixed ^ (mixed >> 31)
        }
    }

    var generator: Generator

    init(seed: UInt64) { generator = Generator(state: seed) }

    mutating func value() -> DBusValue { value(of: type(depth: 0)) }

    private static let basic: [DBusType] = [
        .byte, .boolean, .int16, .uint16, .int32, .uint32, .int64, .uint64, .double, .string, .objectPath, .signature,
    ]

    mutating func type(depth: Int) -> DBusType {
        switch below(depth < 4 ? 10 : 6) {
        case 6: .array(type(depth: depth + 1))
        case 7: .dictionary(key: key(), value: type(depth: depth + 1))
        case 8: .structure((0...below(3)).map { _ in type(depth: depth + 1) })
        case 9: .variant
        default: key()
        }
    }

    private mutating func key() -> DBusType { Self.basic[below(Self.basic.count)] }
    private mutating func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &generator) }

    mutating func value(of type: DBusType, depth: Int = 0) -> DBusValue {
        let bits = generator.next()
        switch type {
        case .byte: return .byte(UInt8(truncatingIfNeeded: bits))
        case .boolean: return .boolean(bits & 1 == 1)
        case .int16: return .int16(Int16(truncatingIfNeeded: bits))
        case .uint16: return .uint16(UInt16(truncatingIfNeeded: bits))
        case .int32: return .int32(Int32(truncatingIfNeeded: bits))
        case .uint32: return .uint32(UInt32(truncatingIfNeeded: bits))
        case .int64: return .int64(Int64(truncatingIfNeeded: bits))
        case .uint64: return .uint64(bits)
        case .double: return .double(Double(Int64(truncatingIfNeeded: bits)) / 3)
        case .string:
            // Every scalar except NUL.
            return .string(
                String(
                    String.UnicodeScalarView(
                        (0..<below(12)).compactMap { _ in Unicode.Scalar(UInt32(below(0x11_0000 - 1) + 1)) })))
        case .objectPath:
            return .objectPath(
                DBusObjectPath("/" + (0...below(3)).map { "e\($0)_\(below(100))" }.joined(separator: "/")))
        case .signature: return (try? DBusSignature([self.type(depth: 2)])).map { .signature($0) } ?? .boolean(false)
        case .unixFileDescriptor, .variant:
            return .variant(value(of: self.type(depth: depth + 1), depth: depth + 1))
        case .array(.byte): return .bytes((0..<below(40)).map { _ in UInt8(below(256)) })
        case .array(let element):
            return .array(of: element, (0..<below(4)).map { _ in value(of: element, depth: depth + 1) })
        case .dictionary(let key, let element):
            let entries = (0..<below(4)).map { _ in (value(of: key), value(of: element, depth: depth + 1)) }
            return .dictionary(key: key, value: element, Dictionary(entries) { _, last in last })
        case .structure(let fields): return .structure(fields.map { value(of: $0, depth: depth + 1) })
        }
    }
}
