public import OTAFirmware
import OTASigning
import SystemPackage

/// Virtual devices that speak SMP.
extension VirtualDeviceStore {
    /// - Throws: `noSuchDevice`, `malformed`, `fromNewerVersion`, `io`.
    public func updateProtocol(of name: String) throws(VirtualDeviceError) -> VirtualDeviceProtocol {
        try Self.file(in: existing(name)) { (json) throws(VirtualDeviceError) in
            try DeviceFile.updateProtocol(json: json)
        }
    }

    /// Makes a device. Its folder is there whole, or not at all.
    ///
    /// - Parameter version: of the image that it comes with, which a key of its own has signed.
    /// - Throws: `exists`, `badConfiguration`, `badAddress` for the name, `io`.
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

    /// Takes a device up: see `open`. An image that was half received is lost, as with any restart.
    ///
    /// - Parameter change: For this time only.
    /// - Throws: `noSuchDevice`, `malformed`, `fromNewerVersion`, `badConfiguration`, `io`.
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
            return VirtualSMPDevice(configuration, flash: flash, trust: try TrustStore(configuration.trustedKeys))
        } catch {
            throw VirtualDeviceError(.malformed, "\(device.appending("device.json")): \(error.context)")
        }
    }

    static func smpConfiguration(in device: FilePath) throws(VirtualDeviceError) -> VirtualSMPConfiguration {
        try file(in: device) { (json) throws(VirtualDeviceError) in try SMPDeviceFile(json: json).configuration }
    }
}
