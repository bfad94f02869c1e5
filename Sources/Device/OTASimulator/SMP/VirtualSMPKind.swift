public import OTAFirmware
import OTASMP
package import OTASigning
package import OTAUpdate
import SystemPackage

/// The virtual devices with SMP.
package struct VirtualSMPKind: VirtualDeviceKind {
    package init() {}

    package let updateProtocol = UpdateProtocol.smp
    package let abilities = [
        (name: "parameters", description: "report the number and the size of the buffers"),
        (name: "reassembly", description: "accept a packet that is split over several Bluetooth writes"),
        (name: "slots", description: "report the sizes of the slots"),
        (name: "marks", description: "mark an image for boot"),
        (name: "board", description: "report the name of the board"),
        (name: "images", description: "accept the commands about images"),
        (name: "second-slot", description: "keep the old image; without it, a firmware loader receives images"),
    ]

    package func create(
        _ name: String, _ wanted: NewVirtualDevice, in store: VirtualDeviceStore
    ) throws(VirtualDeviceError) {
        try store.create(name, VirtualSMPConfiguration(wanted), version: wanted.version)
    }

    package func createDemo(
        _ name: String, accepting update: VerifiedUpdate, _ trust: TrustStore, in store: VirtualDeviceStore
    ) throws(VirtualDeviceError) -> String {
        guard let version = SemanticVersion("0.0.0") else { preconditionFailure("0.0.0 is a version") }
        try store.create(name, VirtualSMPConfiguration(trust: trust), version: version)
        return "protocol SMP, version \(version)"
    }

    package func open(
        _ name: String, in store: VirtualDeviceStore, for use: VirtualDeviceUse
    ) throws(VirtualDeviceError) -> any ObservedDevice {
        try store.openSMP(name) { configuration in
            switch use {
            case .simulated, .bluetooth: break
            case .udp:
                // Each datagram is one packet, and Zephyr's buffer for a datagram has 1500 bytes.
                configuration.reassembles = false
                configuration.bufferSize = min(configuration.bufferSize, 1500)
            case .serial(let overhead):
                // A frame may share the buffer with its packet.
                let longest = configuration.bufferSize - overhead
                configuration.packetLimit = min(configuration.packetLimit ?? longest, longest)
            }
        }
    }

    package func summary(
        of name: String, in store: VirtualDeviceStore
    ) throws(VirtualDeviceError) -> VirtualDeviceSummary {
        let configuration = try self.configuration(of: name, in: store)
        let image = try store.permanentImage(of: name, configuration.layout)
        return VirtualDeviceSummary(name: name, updateProtocol, product: configuration.board, version: image.version)
    }

    fileprivate func configuration(
        of name: String, in store: VirtualDeviceStore
    ) throws(VirtualDeviceError) -> VirtualSMPConfiguration {
        try store.file(of: name) { (json) throws(VirtualDeviceError) in try SMPDeviceFile(json: json).configuration }
    }
}

extension VirtualSMPConfiguration {
    package init(_ wanted: NewVirtualDevice) {
        self.init(trust: wanted.trust)
        board = wanted.product.text
        reportsParameters = !wanted.without.contains("parameters")
        reassembles = !wanted.without.contains("reassembly")
        reportsSlots = !wanted.without.contains("slots")
        marksImages = !wanted.without.contains("marks")
        reportsBoard = !wanted.without.contains("board")
        hasImageGroup = !wanted.without.contains("images")
        if wanted.without.contains("second-slot") { loader = Loader() }
    }
}

extension VirtualDeviceStore {
    /// Creates a device with SMP. The store generates a key pair, signs the first image with the private key, and adds the public key to the
    /// device's trusted keys.
    ///
    /// - Parameter version: the version of the first image.
    /// - Throws: `exists`, `folderExists`, `badConfiguration`, `io`; `badAddress` if the name is invalid.
    public func create(
        _ name: String, _ configuration: VirtualSMPConfiguration, version: SemanticVersion
    ) throws(VirtualDeviceError) {
        try configuration.validate()
        let key: PrivateKey
        do { key = try PrivateKey.generate() } catch { throw VirtualDeviceError(.io, "no key: \(error)") }
        var configuration = configuration
        configuration.trustedKeys.append(key.publicKey)
        try create(name, SMPDeviceFile(configuration), configuration.layout) { [configuration] flash in
            try VirtualSMPDevice.fillFromFactory(flash, configuration, version, key)
        }
    }

    /// Opens a device with SMP. The device has no upload in progress, because the state of an upload is in the device's RAM.
    ///
    /// - Parameter change: changes the configuration of the returned device. The file `device.json` does not change.
    /// - Throws: as `open(_:for:)`.
    public func openSMP(
        _ name: String, _ change: (inout VirtualSMPConfiguration) -> Void = { _ in }
    ) throws(VirtualDeviceError) -> VirtualSMPDevice {
        var configuration = try VirtualSMPKind().configuration(of: name, in: self)
        let flash = try flash(of: name, configuration.layout)
        change(&configuration)
        configuration.layout = flash.layout
        try configuration.validate()
        do {
            return VirtualSMPDevice(
                configuration, flash: flash, trust: try TrustStore(imageKeys: configuration.imageKeys))
        } catch {
            throw VirtualDeviceError(.malformed, "\(folder.appending(name).appending("device.json")): \(error.context)")
        }
    }
}
