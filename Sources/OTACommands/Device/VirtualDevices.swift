import OTAFirmware
import OTASigning
import OTASimulator
import SystemPackage

/// The virtual devices of this user, in the state folder.
struct VirtualDevices {
    /// The name of the virtual device for the address `sim:`.
    static let demoName = "demo"

    let store: VirtualDeviceStore

    init() throws(Failure) {
        guard let folder = try Environment.stateFolder() else {
            throw Failure(
                "cannot-create", .cannotCreate, "no folder for virtual devices: HOME is not set",
                hint: "set OTAFLASH_STATE_DIR to a writable folder")
        }
        store = VirtualDeviceStore(folder: folder)
    }

    /// Locks a virtual device.
    ///
    /// The lock file is in the folder of the devices, so every process that uses the device's flash sees the lock. Its name begins
    /// with a dot, as no device name does.
    ///
    /// - Parameter mayBeMissing: true if the command will create the device. If false, a missing device is an error. Then no lock
    ///   file is created, so that a mistyped name leaves no file.
    func lock(_ name: String, in invocation: Invocation, mayBeMissing: Bool = false) throws -> DeviceLock {
        if !mayBeMissing { try store.expect(name) }
        return try DeviceLock(store.folder.appending(".\(name).lock"), in: invocation)
    }

    /// Creates the device for the address `sim:` with a configuration that accepts the update.
    ///
    /// - Returns: a description of the device for people; nil: the device already exists.
    func makeDemo(for update: VerifiedUpdate, _ trust: TrustStore) throws -> String? {
        guard !store.exists(Self.demoName), let version = SemanticVersion("0.0.0") else { return nil }
        switch update {
        case .images:
            try store.create(Self.demoName, VirtualSMPConfiguration(trustedKeys: trust.keys), version: version)
            return "protocol SMP, version 0.0.0"
        case .bundle(let bundle):
            let configuration = Self.demo(for: bundle, trust)
            try store.create(Self.demoName, configuration, version: version)
            return "\(configuration.product), version 0.0.0"
        }
    }

    private static func demo(for bundle: VerifiedBundle, _ trust: TrustStore) -> VirtualDeviceConfiguration {
        let manifest = bundle.manifest
        // A device stores at most 16 keys: the keys that signed the bundle come first.
        let signers = trust.keys.filter { bundle.signers.contains($0.id) }
        let others = trust.keys.filter { !bundle.signers.contains($0.id) }
        var configuration = VirtualDeviceConfiguration(
            product: manifest.product, trustedKeys: Array((signers + others).prefix(16)))
        configuration.hardware = manifest.hardware?.ranges.first?.lowerBound ?? configuration.hardware
        return configuration
    }
}
