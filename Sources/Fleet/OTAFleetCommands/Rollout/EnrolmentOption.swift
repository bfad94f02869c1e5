import OTAClient
import OTACommands
import OTAFirmware
import OTAFleet
import OTAStore

/// Determines the enrolled devices of a new rollout.
enum EnrolmentOption {
    /// How long before the rollout the store must have a Bluetooth device, in days.
    static let knownDays = 7

    /// Reads the file of --enrolled. Each line has an ID or an address. The devices of all links must be in the file.
    ///
    /// - Throws: `usage` for an invalid line; the errors of `FileReader`.
    static func devices(in file: String) throws -> [DeviceID] {
        let devices = try DeviceList.list(in: file).map { given in
            // The text of an address is never an ID, because it contains ':'.
            if let id = id(given.text) { return id }
            do { return try DeviceID(of: DeviceAddress(given.text)) } catch {
                throw Failure.usage(
                    "\(given.place ?? file): '\(given.text)' is not the ID or the address of a device",
                    hint: "use an ID such as ble-AABBCCDDEEFF, or an address such as ble:AA:BB:CC:DD:EE:FF")
            }
        }
        guard !devices.isEmpty else {
            throw Failure.usage(
                "\(file) has no device", hint: "write one ID on each line; the known IDs: otaflash fleet devices")
        }
        return devices
    }

    /// Returns nil if a text is not an ID as a gateway makes it, so that a mistyped ID does not enrol nothing.
    private static func id(_ text: String) -> DeviceID? {
        guard let dash = text.firstIndex(of: "-") else { return nil }
        let rest = text[text.index(after: dash)...]
        switch text[..<dash] {
        case "ble":
            return rest.utf8.count == 12 && rest.allSatisfy(\.isHexDigit) ? DeviceID("ble-\(rest.uppercased())") : nil
        case "udp", "serial", "sim": return DeviceID(text)
        default: return nil
        }
    }

    /// Returns the list of enrolled devices, which also contains the devices that a stage names.
    ///
    /// - Throws: `usage` for too many devices.
    static func list(_ devices: [DeviceID], named stages: [Stage]) throws(Failure) -> EnrolledDevices {
        let named = stages.flatMap { if case .devices(let devices) = $0.audience { devices } else { [DeviceID]() } }
        guard let list = EnrolledDevices(devices + named) else {
            throw .usage(
                "\(devices.count) enrolled devices are too many; a rollout can enrol at most \(EnrolledDevices.maximumCount)",
                hint: "divide the devices into several files, and create a rollout with --enrolled for each")
        }
        return list
    }

    /// Returns the Bluetooth devices that a new rollout without --enrolled enrols: those that are in a group, and those that the store has
    /// known for ``knownDays``. A stranger cannot put a device into a group.
    static func known(_ devices: StoredDevices, of product: ProductName, at created: Timestamp) -> [DeviceID] {
        let latest = created.advanced(by: -Int64(knownDays) * 86_400)
        return devices.records.filter { record in
            record.device.isBluetooth && (record.product == nil || record.product == product)
                && (!record.groups.isEmpty || record.since.map { $0 <= latest } ?? false)
        }.map(\.device)
    }
}
