import OTAFirmware
import OTASigning
package import OTASimulator
import OTAUpdate
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
        store = VirtualDeviceStore(folder: folder)
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

    /// Creates the virtual device for the address `sim:`, with a configuration that accepts the update.
    ///
    /// - Returns: a description of the device for the user; nil: the device already exists.
    func makeDemo(for update: VerifiedUpdate, _ trust: TrustStore) throws -> String? {
        guard !store.exists(Self.demoName), let version = SemanticVersion("0.0.0") else { return nil }
        switch update {
        case .images:
            try store.create(Self.demoName, VirtualSMPConfiguration(trust: trust), version: version)
            return "protocol SMP, version 0.0.0"
        case .bundle(let bundle):
            let configuration = Self.demo(for: bundle, trust)
            try store.create(Self.demoName, configuration, version: version)
            return "\(configuration.product), version 0.0.0"
        }
    }

    private static func demo(for bundle: VerifiedBundle, _ trust: TrustStore) -> VirtualDeviceConfiguration {
        let manifest = bundle.manifest
        // A device stores at most 16 trusted keys. The keys that signed the bundle are first, so that they are among these 16.
        let signers = trust.keys.filter { bundle.signers.contains($0.id) }
        let others = trust.keys.filter { !bundle.signers.contains($0.id) }
        var configuration = VirtualDeviceConfiguration(
            product: manifest.product, trustedKeys: Array((signers + others).prefix(16)))
        configuration.hardware = manifest.hardware?.ranges.first?.lowerBound ?? configuration.hardware
        configuration.imageFormat = nil
        return configuration
    }

    /// Opens a virtual device.
    func open(
        _ name: String, _ address: VirtualDeviceAddress
    ) throws(VirtualDeviceError) -> any ObservedDevice {
        switch try store.updateProtocol(of: name) {
        case .smp: return try store.openSMP(name)
        case .ota:
            return try store.open(name) { configuration in
                configuration.battery = address.battery ?? configuration.battery
                configuration.flashSpeed = address.flashSpeed
            }
        }
    }
}

/// A virtual device whose state changes are reported to the user.
package protocol ObservedDevice: SimulatedDevice {
    /// The running image; nil: the device is restarting, or cannot boot.
    var running: VirtualBootloader.Boot? { get }
    /// The state that the bootloader stores in flash; nil: the flash contains no valid boot record.
    var bootState: BootState? { get }
    /// The durations of all requests to blink, in seconds. The duration 0 stops the blinking.
    var identifyRequests: [Int] { get }
    /// Stops the device and closes its connections. The flash keeps its state, and an image on trial remains on trial.
    func suspend()
}

extension VirtualDeviceOf: ObservedDevice {}
