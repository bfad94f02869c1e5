import OTAFirmware
import OTAProfile
package import OTASigning
package import OTASimulator
package import OTAUpdate

/// The GATT OTA profile: sends bundles to a device with the C core.
package enum ProfileWire: Wire {
    package typealias Device = VirtualDevice
    package typealias Image = ExampleRelease

    package static var messages: any Messages.Type { ProfileMessages.self }

    package static func session(_ task: UpdateTask<VerifiedBundle>, seed: UInt64) throws(UpdateError) -> UpdateSession {
        UpdateSession(try ProfileConversation(task), seed: seed)
    }
}

extension World where Kind == ProfileWire {
    /// Makes a device with the smallest slot for the release. The tests make a new world for every power cut.
    ///
    /// - Parameter factory: the image that runs; nil: a short text.
    package init(
        _ release: ExampleRelease, running factory: [UInt8]? = nil, radio: RadioModel = RadioModel(),
        faults: FaultPlan = FaultPlan(), seed: UInt64 = 1, age: Duration = .zero,
        adjust: (inout VirtualDeviceConfiguration) -> Void = { _ in }
    ) throws {
        var configuration = VirtualDeviceConfiguration(
            product: release.bundle.manifest.product, trustedKeys: release.keys)
        configuration.layout = FlashLayout(slotSize: release.image.count.roundedUp(to: 4096))
        adjust(&configuration)
        let version = try factoryVersion.get()
        let device: VirtualDevice
        if let factory {
            let flash = VirtualFlash(layout: configuration.layout)
            try VirtualBootloader(flash: flash).install(factory, version: version, securityCounter: 1)
            device = VirtualDevice(configuration, flash: flash)
        } else {
            device = try VirtualDevice(configuration, version: version, securityCounter: 1)
        }
        self.init(device, release, radio: radio, faults: faults, seed: seed, age: age)
    }

    package func push(_ options: UpdateOptions = UpdateOptions()) throws -> Run {
        try run([.push(release.bundle, options)])[0]
    }
}

private let factoryVersion = Result {
    struct NoVersion: Error {}
    guard let version = SemanticVersion("1.0.0") else { throw NoVersion() }
    return version
}
