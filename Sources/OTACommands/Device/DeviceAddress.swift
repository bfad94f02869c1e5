import OTABlueZ
import OTASerial
import OTASimulator
import OTATransport
import OTAUDP

/// A device as the user names it: the transport, a colon, and what the transport makes of the rest.
struct DeviceAddress: Sendable {
    enum TransportAddress: Sendable {
        case simulated(VirtualDeviceAddress)
        case bluetooth(BLEAddress)
        case udp(UDPAddress)
        case serial(SerialAddress)
    }
    let text: String
    let transport: TransportAddress

    /// - Throws: `Failure` for an unknown transport and for what stands behind a known one, `VirtualDeviceError` for what stands
    ///   behind `sim:`.
    init(_ text: String) throws {
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
                        "behind ble: stands an address, name=NAME, or nothing",
                        hint: "type --device ble:AA:BB:CC:DD:EE:FF; see what is in reach: otaflash scan")
                }
                transport = .bluetooth(address)
            default:
                throw AddressError(
                    "it begins with none of ble:, udp:, serial: and sim:",
                    hint:
                        "type --device ble:ADDRESS (otaflash scan shows them), udp:HOST or serial:/dev/ttyACM0, or sim: for a "
                        + "virtual device")
            }
        } catch let error as AddressError {
            throw Failure.usage("'\(text)' is not a device address: \(error.context)", hint: error.hint)
        }
    }

    var isSimulated: Bool { if case .simulated = transport { true } else { false } }
    var isBluetooth: Bool { if case .bluetooth = transport { true } else { false } }

    /// A transport with one channel carries SMP, and nothing tells it but the address.
    var protocols: Set<UpdateProtocol> {
        switch transport {
        case .simulated, .bluetooth: [.ota, .smp]
        case .udp, .serial: [.smp]
        }
    }
}
