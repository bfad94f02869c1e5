import OTAFirmware
import OTAProtocol
package import OTASigning
package import OTAUpdate

extension UpdateProtocol {
    /// SMP, the protocol of MCUmgr (docs/smp.md).
    package static let smp = UpdateProtocol("smp", title: "SMP")
}

/// SMP: MCUboot images, over Bluetooth, UDP and serial lines.
package struct SMPDefinition: ProtocolDefinition {
    package init() {}

    package let updateProtocol = UpdateProtocol.smp
    package let summary = "MCUmgr"
    package let services: Set<UInt128> = [SMPChannel.value.service]
    package let channelNames = [SMPChannel.value: "smp"]
    package let onlyChannel: Channel? = SMPChannel.value
    /// A request needs a subscription, and a device can require pairing for it.
    package let pairsToIdentify = true

    package func isOffered(on link: LinkProperties) -> Bool { link.channels.contains(SMPChannel.value) }

    package func headers(of values: [[UInt8]], on channel: Channel) -> [Int]? {
        guard var rest = SMPFrame.imageDataOffset(inUpload: Array(values.joined())) else { return nil }
        return values.map { value in
            let header = min(rest, value.count)
            rest -= header
            return header
        }
    }

    package func accepts(_ update: VerifiedUpdate) -> Bool { (try? images(of: update)) != nil }

    package func conversation(_ task: UpdateTask<VerifiedUpdate>) throws(UpdateError) -> any Conversation {
        try SMPConversation(task.with(images(of:)))
    }

    package func identification() -> any Conversation { SMPIdentification() }

    private func images(of update: VerifiedUpdate) throws(UpdateError) -> [SMPImage] {
        switch update {
        case .images(let images): return images.map { SMPImage($0.image, number: Int($0.number)) }
        case .bundle(let bundle):
            let format = bundle.manifest.imageFormat
            guard format == .mcuboot else {
                throw UpdateError(
                    .wrongImageFormat,
                    "the device uses SMP and boots MCUboot images, but the image in the bundle has the format \(format.name)"
                )
            }
            do {
                return [SMPImage(try bundle.mcubootImage())]
            } catch {
                throw UpdateError(.wrongImageFormat, "the image in the bundle is not an MCUboot image: \(error)")
            }
        }
    }
}
