import OTAFirmware
package import OTASigning

extension VirtualSMPDevice {
    /// Creates a new device in memory. Slot 0 contains a small image of version 1.0.0 that a newly generated key has signed.
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

    /// Creates a new device in memory whose factory image is signed with `key`.
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

    /// Writes the factory image to the erased flash of a new device.
    ///
    /// - Parameters:
    ///   - version: the version of the image. Its three numbers have 8, 8 and 16 bits.
    ///   - key: the key that signs the image. The device must trust it.
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
