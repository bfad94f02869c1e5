import OTABlueZ
import OTASimulator

/// A device as the user names it: the bearer, a colon, and what the bearer makes of the rest.
struct DeviceAddress: Sendable {
    enum Bearer: Sendable {
        case simulated(VirtualDeviceAddress)
        case bluetooth(BLEAddress)
    }
    let text: String
    let bearer: Bearer

    /// - Throws: `Failure` for an unknown bearer and for what stands behind `ble:`, `VirtualDeviceError` for what stands
    ///   behind `sim:`.
    init(_ text: String) throws {
        self.text = text
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        switch parts.count == 2 ? parts[0] : "" {
        case "sim": bearer = .simulated(try VirtualDeviceAddress(parsing: parts[1]))
        case "ble":
            guard let address = BLEAddress(parts[1]) else {
                throw Failure.usage(
                    "'\(text)' is not a device address: behind ble: stands an address, name=NAME, or nothing",
                    hint: "type --device ble:AA:BB:CC:DD:EE:FF; see what is in reach: otaflash scan")
            }
            bearer = .bluetooth(address)
        default:
            throw Failure.usage(
                "'\(text)' is not a device address: it begins with neither sim: nor ble:",
                hint: "type --device ble:ADDRESS (otaflash scan shows them), or --device sim: for a virtual device")
        }
    }

    var isSimulated: Bool { if case .simulated = bearer { true } else { false } }
}
