public import OTAFirmware
package import OTASigning
package import OTAUpdate

/// The virtual devices with the GATT OTA profile.
package struct VirtualProfileKind: VirtualDeviceKind {
    package init() {}

    package let updateProtocol = UpdateProtocol("ota", title: "GATT OTA profile")
    package let abilities = [
        (name: "encodings", description: "accept compressed images"),
        (name: "base", description: "accept deltas from the running image; requires encodings"),
    ]

    package func create(
        _ name: String, _ wanted: NewVirtualDevice, in store: VirtualDeviceStore
    ) throws(VirtualDeviceError) {
        try store.create(name, VirtualDeviceConfiguration(wanted), version: wanted.version)
    }

    package func createDemo(
        _ name: String, accepting update: VerifiedUpdate, _ trust: TrustStore, in store: VirtualDeviceStore
    ) throws(VirtualDeviceError) -> String {
        guard case .bundle(let bundle) = update, let version = SemanticVersion("0.0.0") else {
            throw VirtualDeviceError(.badConfiguration, "a device with the GATT OTA profile accepts only bundles")
        }
        // A device stores at most 16 trusted keys. The keys that signed the bundle are first, so that they are among these 16.
        let signers = trust.keys.filter { bundle.signers.contains($0.id) }
        let others = trust.keys.filter { !bundle.signers.contains($0.id) }
        var configuration = VirtualDeviceConfiguration(
            product: bundle.manifest.product, trustedKeys: Array((signers + others).prefix(16)))
        configuration.hardware = bundle.manifest.hardware?.ranges.first?.lowerBound ?? configuration.hardware
        configuration.imageFormat = nil
        try store.create(name, configuration, version: version)
        return "\(configuration.product), version \(version)"
    }

    package func open(
        _ name: String, in store: VirtualDeviceStore, for use: VirtualDeviceUse
    ) throws(VirtualDeviceError) -> any ObservedDevice {
        try store.open(name) { configuration in
            switch use {
            case .simulated(let address):
                configuration.battery = address.battery ?? configuration.battery
                configuration.flashSpeed = address.flashSpeed
            // BlueZ 5.66 as a peripheral accepts 512 bytes for a value and its 2-byte handle together. So a value can have 510 bytes.
            case .bluetooth: configuration.longestData = min(configuration.longestData, 510)
            case .udp, .serial: break
            }
        }
    }

    package func summary(
        of name: String, in store: VirtualDeviceStore
    ) throws(VirtualDeviceError) -> VirtualDeviceSummary {
        let configuration = try self.configuration(of: name, in: store)
        let image = try store.permanentImage(of: name, configuration.layout)
        var summary = VirtualDeviceSummary(
            name: name, updateProtocol, product: configuration.product.text, version: image.version)
        summary.hardware = configuration.hardware
        summary.securityCounter = image.securityCounter
        summary.requiredSignatures = configuration.requiredSignatures
        return summary
    }

    fileprivate func configuration(
        of name: String, in store: VirtualDeviceStore
    ) throws(VirtualDeviceError) -> VirtualDeviceConfiguration {
        try store.file(of: name) { (json) throws(VirtualDeviceError) in try ProfileDeviceFile(json: json).configuration
        }
    }
}

extension VirtualDeviceConfiguration {
    package init(_ wanted: NewVirtualDevice) {
        self.init(product: wanted.product, trustedKeys: wanted.trust.keys)
        offersEncodings = !wanted.without.contains("encodings")
        offersBase = !wanted.without.contains("base")
    }
}

extension VirtualDeviceStore {
    /// Creates a device with the GATT OTA profile.
    ///
    /// - Throws: `exists`, `folderExists`, `badConfiguration`, `io`; `badAddress` if the name is invalid.
    public func create(
        _ name: String, _ configuration: VirtualDeviceConfiguration, version: SemanticVersion,
        securityCounter: UInt32 = 0
    ) throws(VirtualDeviceError) {
        try configuration.validate()
        try create(name, ProfileDeviceFile(configuration), configuration.layout) { flash in
            try VirtualDevice.fillFromFactory(flash, configuration, version, securityCounter)
        }
    }

    /// Opens a device with the GATT OTA profile.
    ///
    /// - Parameter change: changes the configuration of the returned device, for example the battery level. The file `device.json` does not
    ///   change.
    /// - Throws: as `open(_:for:)`.
    public func open(
        _ name: String, _ change: (inout VirtualDeviceConfiguration) -> Void = { _ in }
    ) throws(VirtualDeviceError) -> VirtualDevice {
        var configuration = try VirtualProfileKind().configuration(of: name, in: self)
        let flash = try flash(of: name, configuration.layout)
        change(&configuration)
        configuration.layout = flash.layout
        try configuration.validate()
        return VirtualDevice(configuration, flash: flash)
    }
}
