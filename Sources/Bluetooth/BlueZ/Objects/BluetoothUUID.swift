/// A UUID of a service, a characteristic or a descriptor.
public struct BluetoothUUID: Hashable, Sendable {
    /// The Bluetooth base UUID, 00000000-0000-1000-8000-00805f9b34fb (Core Specification, Vol 3, Part B, 2.5.1).
    private static let base: UInt128 = 0x1000_8000_0080_5f9b_34fb
    private static let groups = [8, 4, 4, 4, 12]

    /// The upper and the lower 64 bits of `value`. This type does not store the `UInt128` itself, because that type has an alignment
    /// of 16 bytes. In a debug build of Swift 6.3.1, an asynchronous closure that captures a value with this alignment can crash when
    /// it resumes.
    private let high, low: UInt64

    /// The UUID as a number. The first digit of the text form is the most significant digit.
    public var value: UInt128 { UInt128(high) << 64 | UInt128(low) }

    public init(_ value: UInt128) {
        high = UInt64(truncatingIfNeeded: value >> 64)
        low = UInt64(truncatingIfNeeded: value)
    }

    /// Creates a UUID from a 16-bit number that the Bluetooth SIG has assigned, such as 0x180F.
    public init(assigned number: UInt16) { self.init(Self.base | UInt128(number) << 96) }

    /// Parses a UUID such as `c7e10001-63a0-486d-9bcb-a18d79d9acd9`, or an assigned number of four or eight digits, with or
    /// without `0x`. Upper and lower case are accepted.
    public init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        if parts.map(\.utf8.count) == Self.groups {
            let digits = parts.joined()
            guard digits.utf8.allSatisfy(\.isHexDigit), let value = UInt128(digits, radix: 16) else { return nil }
            self.init(value)
        } else {
            let digits = text.hasPrefix("0x") || text.hasPrefix("0X") ? text.dropFirst(2) : text[...]
            guard [4, 8].contains(digits.utf8.count), digits.utf8.allSatisfy(\.isHexDigit),
                let number = UInt32(digits, radix: 16)
            else { return nil }
            self.init(Self.base | UInt128(number) << 96)
        }
    }

    /// The number that the Bluetooth SIG has assigned; nil if the UUID is not derived from the Bluetooth base UUID.
    public var assigned: UInt32? {
        value & (UInt128.max >> 32) == Self.base ? UInt32(truncatingIfNeeded: value >> 96) : nil
    }
}

extension BluetoothUUID: CustomStringConvertible {
    /// The text form on D-Bus: five groups of lower-case hexadecimal digits.
    public var description: String {
        let digits = String(value, radix: 16)
        var rest = (String(repeating: "0", count: 32 - digits.count) + digits)[...]
        return Self.groups.map { count in
            defer { rest = rest.dropFirst(count) }
            return String(rest.prefix(count))
        }.joined(separator: "-")
    }
}

extension UInt8 {
    /// Whether this byte is an ASCII hexadecimal digit.
    var isHexDigit: Bool {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
            UInt8(ascii: "A")...UInt8(ascii: "F"):
            true
        default: false
        }
    }
}
