import OTAFirmware
import OTASigning
import OTASimulator
import SystemPackage

/// The virtual devices of this user.
struct VirtualDevices {
    /// What plain `sim:` stands for.
    static let demoName = "demo"

    let store: VirtualDeviceStore

    init() throws(Failure) {
        guard let folder = try Environment.stateFolder() else {
            throw Failure(
                "cannot-create", .cannotCreate, "there is no place for virtual devices: HOME is not set",
                hint: "set OTAFLASH_STATE_DIR to a folder that can be written to")
        }
        store = VirtualDeviceStore(folder: folder)
    }

    /// The lock lies beside the device, so whoever can get at its flash sees the lock. No device's name begins with a point.
    ///
    /// - Parameter isToBeMade: the device need not be there yet. Otherwise one that is not there gets no lock: a typing
    ///   error leaves nothing behind.
    func lock(_ name: String, in invocation: Invocation, mayBeMissing: Bool = false) throws -> DeviceLock {
        if !mayBeMissing { try store.expect(name) }
        return try DeviceLock(store.folder.appending(".\(name).lock"), in: invocation)
    }

    /// Makes the device that plain `sim:` stands for such that it takes the update.
    ///
    /// - Returns: what it is, for people; nil: it is there already.
    func makeDemo(for update: VerifiedUpdate, _ trust: TrustStore) throws -> String? {
        guard !store.exists(Self.demoName), let version = SemanticVersion("0.0.0") else { return nil }
        switch update {
        case .images:
            try store.create(Self.demoName, VirtualSMPConfiguration(trustedKeys: trust.keys), version: version)
            return "it speaks SMP, version 0.0.0"
        case .bundle(let bundle):
            let configuration = Self.demo(for: bundle, trust)
            try store.create(Self.demoName, configuration, version: version)
            return "\(configuration.product), version 0.0.0"
        }
    }

    private static func demo(for bundle: VerifiedBundle, _ trust: TrustStore) -> VirtualDeviceConfiguration {
        let manifest = bundle.bundle.envelope.manifest
        // A device has room for 16 keys: those that vouch for the bundle go first.
        let signers = trust.keys.filter { bundle.signers.contains($0.id) }
        let others = trust.keys.filter { !bundle.signers.contains($0.id) }
        var configuration = VirtualDeviceConfiguration(
            product: manifest.product, trustedKeys: Array((signers + others).prefix(16)))
        configuration.hardware = manifest.hardware?.ranges.first?.lowerBound ?? configuration.hardware
        return configuration
    }
}
