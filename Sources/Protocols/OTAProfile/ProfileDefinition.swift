import OTAFirmware
import OTAProtocol
package import OTASigning
package import OTAUpdate

extension UpdateProtocol {
    /// The GATT OTA profile (docs/ota-profile.md).
    package static let ota = UpdateProtocol("ota", title: "GATT OTA profile")
}

/// The GATT OTA profile: signed bundles, over Bluetooth.
package struct ProfileDefinition: ProtocolDefinition {
    package init() {}

    package let updateProtocol = UpdateProtocol.ota
    package let summary = "GATT OTA profile"
    package let services: Set<UInt128> = [ProfileChannel.service]
    package let channelNames = [
        ProfileChannel.info: "info", ProfileChannel.control: "control", ProfileChannel.data: "data",
        ProfileChannel.progress: "progress", ProfileChannel.version: "version", ProfileChannel.battery: "battery",
    ]

    /// A value of Data is a sequence number of two bytes, and a part of the envelope or of the image (docs/ota-profile.md).
    package func headers(of values: [[UInt8]], on channel: Channel) -> [Int]? {
        channel == ProfileChannel.data ? values.map { min(2, $0.count) } : nil
    }

    package func accepts(_ update: VerifiedUpdate) -> Bool { (try? bundle(of: update)) != nil }

    package func conversation(_ task: UpdateTask<VerifiedUpdate>) throws(UpdateError) -> any Conversation {
        try ProfileConversation(task.with(bundle(of:)))
    }

    package func identification() -> any Conversation { ProfileIdentification() }

    private func bundle(of update: VerifiedUpdate) throws(UpdateError) -> VerifiedBundle {
        guard case .bundle(let bundle) = update else {
            throw UpdateError(
                .wrongImageFormat,
                "the file is an MCUboot image, and the device's GATT OTA profile accepts only signed bundles",
                remedy: .bundle)
        }
        // A device that boots any format would otherwise be asked.
        guard ImageFormat.bootable.contains(bundle.manifest.imageFormat) else {
            throw UpdateError(
                .wrongImageFormat,
                "the bundle contains a Nordic DFU package, which no device with the GATT OTA profile installs")
        }
        return bundle
    }
}
