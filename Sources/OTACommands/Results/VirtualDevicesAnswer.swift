import OTAFirmware
import OTASimulator
import OTAUpdate

/// The result of `simulate create`, `list`, `remove` and `serve`.
struct VirtualDevicesAnswer: Answer {
    /// A virtual device.
    struct Device: Encodable, Sendable {
        let address, product, version: String
        /// `ota` or `smp`.
        let updateProtocol: String
        // Nil for a device that speaks SMP.
        let hardware: UInt16?
        let securityCounter: UInt32?

        private enum CodingKeys: String, CodingKey {
            case address, product, version, hardware, securityCounter
            case updateProtocol = "protocol"
        }

        init(_ device: VirtualDeviceSummary) {
            address = "sim:\(device.name)"
            product = device.product
            updateProtocol = device.updateProtocol.rawValue
            version = device.version
            hardware = device.hardware
            securityCounter = device.securityCounter
        }
    }
    /// A virtual device whose files are damaged or from another version.
    struct Unreadable: Encodable, Sendable {
        let address, code: String
    }
    let devices: [Device]
    let lines: [TerminalLine]
    var unreadable: [Unreadable]?

    private enum CodingKeys: CodingKey {
        case devices, unreadable
    }

    /// The devices as a table for people.
    static func table(_ devices: [Device]) -> [TerminalLine] {
        TextTable.rows(
            ["ADDRESS", "PROTOCOL", "PRODUCT", "VERSION", "HARDWARE", "COUNTER"],
            devices.map {
                let own = [$0.hardware.map { "\($0)" }, $0.securityCounter.map { "\($0)" }].map { $0 ?? "-" }
                return [$0.address, $0.updateProtocol, $0.product, $0.version] + own
            })
    }
}
