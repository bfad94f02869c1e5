import OTASimulator

/// A device as the user names it: the bearer, a colon, and what the bearer makes of the rest.
struct DeviceAddress: Sendable {
    enum Bearer: Sendable {
        case simulated(VirtualDeviceAddress)
        case bluetooth
    }
    let text: String
    let bearer: Bearer

    /// - Throws: `Failure` for an unknown bearer, `VirtualDeviceError` for what stands behind `sim:`.
    init(_ text: String) throws {
        self.text = text
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        switch parts.count == 2 ? parts[0] : "" {
        case "sim": bearer = .simulated(try VirtualDeviceAddress(parsing: parts[1]))
        case "ble": bearer = .bluetooth
        default:
            throw Failure.usage(
                "'\(text)' is not a device address: it begins with neither sim: nor ble:",
                hint: "type --device sim: for a virtual device, or --device sim:NAME")
        }
    }

    var isSimulated: Bool { if case .simulated = bearer { true } else { false } }
}
