public import OTAFirmware
import OTASigning
public import OTAUpdate
import SystemPackage

/// The functions of the store for virtual SMP devices.
extension VirtualDeviceStore {
    /// Returns the protocol of a device.
    ///
    /// - Throws: `noSuchDevice`, `malformed`, `fromNewerVersion`, `io`; `badAddress` if the name is invalid.
    public func updateProtocol(of name: String) throws(VirtualDeviceError) -> UpdateProtocol {
        try Self.file(in: existing(name)) { (json) throws(VirtualDeviceError) in
            try DeviceFile.updateProtocol(json: json)
        }
    }

    /// Creates an SMP device. The device's folder appears only when all its files are complete.
    ///
    /// - Parameter version: the version of the factory image. The store generates a key pair, signs the factory image with the private key,
    ///   and adds the public key to the device's trusted keys.
    /// - Throws: `exists`, `badConfiguration`, `io`; `badAddress` if the name is invalid.
    public func create(
        _ name: String, _ configuration: VirtualSMPConfiguration, version: SemanticVersion
    ) throws(VirtualDeviceError) {
        try configuration.validate()
        try create(name) { (draft) throws(VirtualDeviceError) in
            try Self.io(draft) {
                let key = try PrivateKey.generate()
                var configuration = configuration
                configuration.trustedKeys.append(key.publicKey)
                try Self.write(try SMPDeviceFile(configuration).json, to: draft.appending("device.json"))
                try Self.write(Array(repeating: 0xFF, count: configuration.layout.size), to: draft.appending("flash"))
                let flash = try Self.flash(in: draft, configuration.layout, .readWrite)
                try VirtualSMPDevice.fillFromFactory(flash, configuration, version, key)
            }
        }
    }

    /// Opens an SMP device with the state in its file `flash`. The device has no upload in progress, because the state of an upload is in
    /// the device's RAM.
    ///
    /// - Parameter change: changes the configuration of the returned device. The file `device.json` does not change.
    /// - Throws: `noSuchDevice`, `malformed`, `fromNewerVersion`, `badConfiguration`, `io`; `badAddress` if the name is invalid.
    public func openSMP(
        _ name: String, _ change: (inout VirtualSMPConfiguration) -> Void = { _ in }
    ) throws(VirtualDeviceError) -> VirtualSMPDevice {
        let device = try existing(name)
        var configuration = try Self.smpConfiguration(in: device)
        let flash = try Self.flash(in: device, configuration.layout, .readWrite)
        change(&configuration)
        configuration.layout = flash.layout
        try configuration.validate()
        do {
            let trust = try TrustStore(imageKeys: configuration.imageKeys)
            return VirtualSMPDevice(configuration, flash: flash, trust: trust)
        } catch {
            throw VirtualDeviceError(.malformed, "\(device.appending("device.json")): \(error.context)")
        }
    }

    static func smpConfiguration(in device: FilePath) throws(VirtualDeviceError) -> VirtualSMPConfiguration {
        try file(in: device) { (json) throws(VirtualDeviceError) in try SMPDeviceFile(json: json).configuration }
    }
}
