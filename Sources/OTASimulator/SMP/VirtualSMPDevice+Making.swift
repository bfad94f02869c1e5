import OTAFirmware
package import OTASigning

extension VirtualSMPDevice {
    /// A new device in memory, with a small image of version 1.0.0 in slot 0 that a key of its own has signed.
    ///
    /// - Throws: `badConfiguration`.
    public convenience init(_ configuration: VirtualSMPConfiguration) throws(VirtualDeviceError) {
        do {
            try self.init(configuration, factoryKey: PrivateKey.generate())
        } catch let error as VirtualDeviceError {
            throw error
        } catch {
            throw VirtualDeviceError(.badConfiguration, "such a device cannot be made: \(error)")
        }
    }

    /// The same, whose image is signed with this key.
    package convenience init(
        _ configuration: VirtualSMPConfiguration, factoryKey key: PrivateKey
    ) throws(VirtualDeviceError) {
        let flash = VirtualFlash(layout: configuration.layout)
        do {
            var configuration = configuration
            configuration.trustedKeys.append(key.publicKey)
            guard let version = SemanticVersion("1.0.0") else { preconditionFailure("1.0.0 is a version") }
            try Self.fillFromFactory(flash, configuration, version, key)
            self.init(configuration, flash: flash, trust: try TrustStore(configuration.trustedKeys))
        } catch {
            throw VirtualDeviceError(.badConfiguration, "such a device cannot be made: \(error)")
        }
    }

    /// Puts the image that a new device comes with into its erased flash.
    ///
    /// - Parameters:
    ///   - version: its three numbers have 8, 8 and 16 bits.
    ///   - key: signs the image; among those that the device trusts.
    static func fillFromFactory(
        _ flash: VirtualFlash, _ configuration: VirtualSMPConfiguration, _ version: SemanticVersion, _ key: PrivateKey
    ) throws {
        guard let major = UInt8(exactly: version.major), let minor = UInt8(exactly: version.minor),
            let revision = UInt16(exactly: version.patch)
        else {
            throw VirtualDeviceError(.badConfiguration, "an MCUboot image's version is at most 255.255.65535")
        }
        let body = Array("factory firmware of \(configuration.board)\n".utf8)
        let image = try SampleImage((major, minor, revision, 0), body: body, key: key).bytes()
        let text = SemanticVersion("\(major).\(minor).\(revision)") ?? version
        try VirtualBootloader(flash: flash).install(image, version: text, securityCounter: 0)
    }
}
