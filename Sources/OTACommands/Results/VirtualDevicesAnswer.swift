import OTAFirmware
import OTASimulator

/// What simulate create, list and remove answer with.
struct VirtualDevicesAnswer: Answer {
    struct Device: Encodable, Sendable {
        let address, product, version: String
        let hardware: UInt16
        let securityCounter: UInt32

        init(_ device: VirtualDeviceSummary) {
            address = "sim:\(device.name)"
            product = device.product.text
            version = device.version
            hardware = device.hardware
            securityCounter = device.securityCounter
        }
    }
    /// One that is there, and whose files are damaged or not of this version.
    struct Unreadable: Encodable, Sendable {
        let address, code: String
    }
    let devices: [Device]
    let text: String
    var unreadable: [Unreadable]?

    private enum CodingKeys: CodingKey {
        case devices, unreadable
    }

    static func table(_ devices: [Device]) -> String {
        TextTable.rows(
            ["ADDRESS", "PRODUCT", "VERSION", "HARDWARE", "COUNTER"],
            devices.map { [$0.address, $0.product, $0.version, "\($0.hardware)", "\($0.securityCounter)"] })
    }
}
