import OTAEngine
package import OTALinks
import OTASigning
package import OTASimulator
public import OTAUpdate

/// The address of a device: the transport, a colon, and an address in the transport's format.
///
/// Examples: `ble:AA:BB:CC:DD:EE:FF`, `ble:name=NAME`, `udp:HOST`, `serial:/dev/ttyACM0`, `sim:NAME` for a virtual device.
public struct DeviceAddress: Sendable {
    package enum TransportAddress: Sendable {
        case simulated(VirtualDeviceAddress)
        case bluetooth(BLEAddress)
        case udp(UDPAddress)
        case serial(SerialAddress)
    }
    public let text: String
    package let transport: TransportAddress

    /// Parses an address.
    ///
    /// - Throws: `AddressError` for an unknown transport or an invalid address; `VirtualDeviceError` for an invalid address after `sim:`.
    public init(_ text: String) throws {
        self.text = text
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        do {
            switch parts.count == 2 ? parts[0] : "" {
            case "sim": transport = .simulated(try VirtualDeviceAddress(parsing: parts[1]))
            case "udp": transport = .udp(try UDPAddress(parsing: parts[1]))
            case "serial": transport = .serial(try SerialAddress(parsing: parts[1]))
            case "ble":
                guard let address = BLEAddress(parts[1]) else {
                    throw AddressError(
                        "after ble:, give an address, name=NAME, or nothing",
                        hint: Self.guess(bluetooth: parts[1]) + "list the devices in range: otaflash scan")
                }
                transport = .bluetooth(address)
            default:
                throw AddressError(
                    "it must begin with ble:, udp:, serial: or sim:",
                    hint: Self.guess(text)
                        ?? "use --device ble:ADDRESS (otaflash scan lists the addresses), udp:HOST, serial:/dev/ttyACM0, or sim: for "
                        + "a virtual device")
            }
        } catch let error as AddressError {
            throw AddressError("'\(text)' is not a device address: \(error.context)", hint: error.hint)
        }
    }

    /// Returns a hint with the addresses that a text without a transport can mean. Returns nil for a text that is like no address.
    private static func guess(_ text: String) -> String? {
        if text.hasPrefix("/") { return "did you mean --device \("serial:\(text)".shellQuoted)?" }
        if let address = bluetoothAddress(text[...]) { return "did you mean --device \(address)?" }
        if text.contains("."), (try? UDPAddress(parsing: text)) != nil {
            return "did you mean --device \("udp:\(text)".shellQuoted)?"
        }
        guard (try? VirtualDeviceAddress(parsing: text)) != nil, !text.isEmpty else { return nil }
        return "did you mean --device ble:name=\(text) or, for a virtual device, --device sim:\(text)?"
    }

    /// Returns a hint with the address that a text after `ble:` can mean; empty for a text that is like no address.
    private static func guess(bluetooth text: Substring) -> String {
        let isName = !text.isEmpty && !text.contains("=") && !text.contains(":")
        let address = bluetoothAddress(text) ?? (isName ? "ble:name=\(text)".shellQuoted : nil)
        return address.map { "did you mean --device \($0)? " } ?? ""
    }

    /// Returns the address of twelve hex digits with other separators or without.
    private static func bluetoothAddress(_ text: Substring) -> String? {
        let digits = text.filter { $0 != ":" && $0 != "-" }.uppercased()
        guard digits.count == 12, digits.allSatisfy(\.isHexDigit) else { return nil }
        let pairs = stride(from: 0, to: 12, by: 2).map { String(digits.dropFirst($0).prefix(2)) }
        return "ble:" + pairs.joined(separator: ":")
    }

    /// The address in a uniform spelling, without the parameters of a virtual device. For example, `udp:HOST` and `udp:HOST:1337` have the
    /// same canonical address. A push to several devices compares the canonical addresses to find a device that was given twice. It does
    /// not find `ble:name=NAME` and `ble:AA:BB:CC:DD:EE:FF` of the same device, because these canonical addresses differ.
    package var canonical: String {
        switch transport {
        case .simulated(let address): "sim:\(address.name ?? VirtualDevices.demoName)"
        case .bluetooth(let address): "ble:\(address)"
        case .udp(let address): "udp:\(address)"
        case .serial(let address): "serial:\(address.path)"
        }
    }

    public var isSimulated: Bool { if case .simulated = transport { true } else { false } }
    /// The canonical address of a real device. Nil if another device can soon have the same address: the device at a serial port, or a
    /// Bluetooth device with a name.
    var ofOneDevice: String? {
        switch transport {
        case .bluetooth(.device), .udp: canonical
        case .bluetooth, .serial, .simulated: nil
        }
    }

    public var isBluetooth: Bool { if case .bluetooth = transport { true } else { false } }

    /// The update protocols that the transport supports. UDP and serial lines have only one channel.
    public var protocols: Set<UpdateProtocol> {
        switch transport {
        case .simulated, .bluetooth: Set(UpdateProtocol.allCases)
        case .udp, .serial: Set(Protocols.withOneChannel.map(\.updateProtocol))
        }
    }
}
