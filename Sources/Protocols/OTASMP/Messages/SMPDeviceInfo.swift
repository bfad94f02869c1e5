/// The identity that a device with Memfault's SDK reports (docs.memfault.com, "MCUmgr"; nRF Connect Device Manager, `MemfaultManager.java`).
/// A value that the device does not report, or an empty one, is nil.
package struct SMPDeviceInfo: Sendable, Equatable {
    package var serial: String?
    /// The hardware version, as free text.
    package var hardware: String?
    /// The software type, which names the product.
    package var softwareType: String?
    /// The version of the running software. Memfault allows other forms than MCUboot's versions.
    package var version: String?

    package init(_ fields: [String: CBORValue] = [:]) {
        func text(_ key: String) -> String? { fields[key]?.shortText.flatMap { $0.isEmpty ? nil : $0 } }
        serial = text("device_serial")
        hardware = text("hardware_version")
        softwareType = text("software_type")
        version = text("current_version")
    }

    /// The version without the part after `+`; nil if this is not a version of three or four numbers. A version such as `1.2.3-rc1` is not
    /// the version `1.2.3`.
    var plainVersion: String? {
        version.map { String($0.prefix { $0 != "+" }) }.flatMap { SMPVersion($0) == nil ? nil : $0 }
    }

    /// The hardware version as a revision number; nil if it is not a number.
    var revision: UInt16? { hardware.flatMap { UInt16($0) } }
}
