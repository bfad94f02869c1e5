public import OTAFirmware

extension VirtualDevice {
    /// Creates a new device in memory, with a factory image.
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

    /// Writes the factory image to the erased flash of a new device. The image is valid but comes from no bundle.
    static func fillFromFactory(
        _ flash: VirtualFlash, _ configuration: VirtualDeviceConfiguration, _ version: SemanticVersion,
        _ securityCounter: UInt32
    ) throws(FlashError) {
        let image = Array("factory firmware of \(configuration.product.text), version \(version.text)\n".utf8)
        try VirtualBootloader(flash: flash).install(image, version: version, securityCounter: securityCounter)
    }
}
