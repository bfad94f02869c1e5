import OTAFirmware
import OTASigning

extension VirtualSMPDevice {
    /// A new device in memory, with a small image of version 1.0.0 in slot 0 that a key of its own has signed.
    ///
    /// - Throws: `badConfiguration`.
    public convenience init(_ configuration: VirtualSMPConfiguration) throws(VirtualDeviceError) {
        let flash = VirtualFlash(layout: configuration.layout)
        do {
            let key = try PrivateKey.generate()
            let body = Array("factory firmware of \(configuration.board)\n".utf8)
            let image = try SampleImage((1, 0, 0, 0), body: body, key: key).bytes()
            guard let version = SemanticVersion("1.0.0") else { preconditionFailure("1.0.0 is a version") }
            try VirtualBootloader(flash: flash).install(image, version: version, securityCounter: 0)
            var configuration = configuration
            configuration.trustedKeys.append(key.publicKey)
            self.init(configuration, flash: flash, trust: try TrustStore(configuration.trustedKeys))
        } catch {
            throw VirtualDeviceError(.badConfiguration, "such a device cannot be made: \(error)")
        }
    }
}
