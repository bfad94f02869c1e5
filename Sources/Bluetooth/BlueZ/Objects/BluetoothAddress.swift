import DBus

/// The 48-bit address of a device or an adapter.
public struct BluetoothAddress: Hashable, Sendable {
    /// The type of a device's address. A random address is static or private. A static address can change only when the device
    /// restarts. A private address changes every few minutes.
    public enum Kind: String, Sendable {
        case `public`
        case random
    }

    public let value: UInt64

    /// Parses an address such as `AA:BB:CC:DD:EE:FF`. Upper and lower case are accepted.
    public init?(_ text: some StringProtocol) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 6, parts.allSatisfy({ $0.utf8.count == 2 && $0.utf8.allSatisfy(\.isHexDigit) }),
            let value = UInt64(parts.joined(), radix: 16)
        else { return nil }
        self.value = value
    }
}

extension BluetoothAddress: CustomStringConvertible {
    /// The address in BlueZ's format: six groups of two upper-case hexadecimal digits.
    public var description: String {
        (0..<6).reversed().map { index in
            let byte = UInt8(truncatingIfNeeded: value >> UInt64(8 * index))
            return (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
        }.joined(separator: ":")
    }
}

extension BluetoothAddress {
    /// Parses the address at the end of a device's path, such as `/org/bluez/hci0/dev_AA_BB_CC_DD_EE_FF`.
    init?(device: DBusObjectPath) {
        guard device.lastElement.hasPrefix("dev_") else { return nil }
        self.init(device.lastElement.dropFirst(4).split(separator: "_").joined(separator: ":"))
    }
}
