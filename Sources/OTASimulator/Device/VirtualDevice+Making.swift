public import OTAFirmware

extension VirtualDevice {
    /// A new device in memory, with an image from the factory.
    ///
    /// - Throws: `badConfiguration`.
    public convenience init(
        _ configuration: VirtualDeviceConfiguration, version: SemanticVersion, securityCounter: UInt32 = 0
    ) throws(VirtualDeviceError) {
        try configuration.validate()
        let flash = VirtualFlash(layout: configuration.layout)
        do {
            try Self.fillFromFactory(flash, configuration, version, securityCounter)
        } catch {
            throw VirtualDeviceError(.io, "the flash in memory failed: \(error)")
        }
        self.init(configuration, flash: flash)
    }

    /// Puts the image that a new device comes with into its erased flash: as good as any other, but from no bundle.
    static func fillFromFactory(
        _ flash: VirtualFlash, _ configuration: VirtualDeviceConfiguration, _ version: SemanticVersion,
        _ securityCounter: UInt32
    ) throws(FlashError) {
        let image = Array("factory firmware of \(configuration.product.text), version \(version.text)\n".utf8)
        try VirtualBootloader(flash: flash).install(image, version: version, securityCounter: securityCounter)
    }
}
