import OTAFirmware
import OTAProtocol
import OTASigning
package import OTASimulator
package import OTAUpdate
package import SystemPackage

/// The virtual devices in a folder, usually in the state folder of the user.
package struct VirtualDevices {
    /// The name of the virtual device for the address `sim:`.
    package static let demoName = "demo"

    package let store: VirtualDeviceStore

    /// Locates the folder of the virtual devices.
    ///
    /// - Parameter folder: the folder of the devices; nil: the state folder of the command `otaflash`.
    /// - Throws: `cannotCreate`, `invalidStateFolder`.
    package init(in folder: FilePath? = nil) throws(ClientError) {
        var folder = folder
        if folder == nil { folder = try Environment.stateFolder() }
        guard let folder else {
            throw ClientError(.cannotCreate, "no folder for virtual devices: HOME is not set")
        }
        store = VirtualDeviceStore(folder: folder, kinds: Protocols.all.compactMap(\.virtualDevice))
    }

    /// Returns the names of the virtual devices in a list of addresses that do not exist.
    package func missing(from addresses: [DeviceAddress]) -> [String] {
        addresses.compactMap { address in
            guard case .simulated(let device) = address.transport else { return nil }
            let name = device.name ?? Self.demoName
            return store.exists(name) ? nil : name
        }
    }

    /// Locks a virtual device.
    ///
    /// The lock file is in the folder of the virtual devices, so every process that uses the device finds the lock. The name of the lock
    /// file begins with a dot. The name of a device cannot begin with a dot, so no device has the name of a lock file.
    ///
    /// - Parameter mayBeMissing: true if the caller will create a missing device. If false, a missing device is an error, and no lock file
    ///   is created. So a mistyped name leaves no file.
    package func lock(_ name: String, mayBeMissing: Bool = false) throws -> DeviceLock {
        if !mayBeMissing { try store.expect(name) }
        return try DeviceLock(store.folder.appending(".\(name).lock"), of: "sim:\(name)")
    }

    /// Creates a device of a protocol.
    package func create(_ name: String, _ wanted: NewVirtualDevice, _ updateProtocol: UpdateProtocol) throws {
        guard let kind = Protocols.all.first(where: { $0.updateProtocol == updateProtocol })?.virtualDevice else {
            throw VirtualDeviceError(.badConfiguration, "there are no virtual devices with \(updateProtocol.title)")
        }
        try kind.create(name, wanted, in: store)
    }

    /// Creates the virtual device for the address `sim:`, of the first protocol that can push the update.
    ///
    /// - Returns: a description of the device for the user; nil: the device already exists.
    func makeDemo(for update: VerifiedUpdate, _ trust: TrustStore) throws -> String? {
        guard !store.exists(Self.demoName) else { return nil }
        let kind = Protocols.all.first { $0.definition.accepts(update) && $0.virtualDevice != nil }?.virtualDevice
        return try kind?.createDemo(Self.demoName, accepting: update, trust, in: store)
    }
}
