import OTAFirmware
import OTAProfile
import OTASMP
import OTASigning
import OTAUpdate

/// Chooses the update protocol from the task, the device and the user's options. Creates the `Conversation` that uses this protocol.
struct ProtocolChoice: Sendable {
    let task: UpdateTask<VerifiedUpdate>
    /// The protocol that the user requires; nil: any protocol.
    let forced: UpdateProtocol?
    /// The ids of the bases whose files the user named (`BaseImages.named`).
    var namedBases: Set<Int> = []

    /// Creates a session that chooses the protocol when the first link opens. The choice depends on the services of the device.
    ///
    /// - Parameter seed: the seed of the session's random numbers.
    func session(seed: UInt64) -> UpdateSession {
        UpdateSession(seed: seed) { link throws(UpdateError) in try conversation(updateProtocol(on: link)) }
    }

    /// Creates the `Conversation` for a protocol.
    ///
    /// - Throws: `wrongImageFormat` or `unsupportedDevice` if the protocol does not support the task.
    func conversation(_ updateProtocol: UpdateProtocol) throws(UpdateError) -> any Conversation {
        switch updateProtocol {
        case .ota: try ProfileConversation(task.with(Self.bundle(of:)), namedBases: namedBases)
        case .smp: try SMPConversation(task.with(Self.images(of:)), namedBases: namedBases)
        }
    }

    /// Returns the protocol for a device.
    ///
    /// If `forced` is not nil, the result is `forced`, even if the device offers neither the OTA profile nor SMP. The conversation then
    /// reports the missing service.
    ///
    /// If `forced` is nil, the result is the protocol that the device offers. If the device offers both protocols, the result depends on
    /// the task: SMP for a push of MCUboot images, the OTA profile for every other task.
    ///
    /// - Parameter link: the open link, with the channels that the device offers.
    /// - Throws: `unsupportedDevice` in two cases: `forced` is not nil and the device offers only the other protocol, or `forced` is nil
    ///   and the device offers neither protocol.
    func updateProtocol(on link: LinkProperties) throws(UpdateError) -> UpdateProtocol {
        let offersProfile = link.channels.contains { $0.service == ProfileChannel.service }
        let offersSMP = link.channels.contains(SMPChannel.value)
        switch (forced, offersProfile, offersSMP) {
        case (.smp, true, false):
            throw UpdateError(
                .unsupportedDevice, "--protocol smp was given, but the device offers only the GATT OTA profile")
        case (.ota, false, true):
            throw UpdateError(.unsupportedDevice, "--protocol ota was given, but the device offers only SMP")
        default: if let forced { return forced }
        }
        switch (offersProfile, offersSMP) {
        case (true, true):
            if case .push(.images, _) = task { return .smp }
            return .ota
        case (true, false): return .ota
        case (false, true): return .smp
        case (false, false):
            let found = ForeignProtocol(link.channels).map {
                "; it offers \($0.rawValue), which otaflash does not support"
            }
            throw UpdateError(
                .unsupportedDevice, "it offers neither the OTA service nor the SMP service of MCUmgr" + (found ?? ""))
        }
    }

    private static func bundle(of update: VerifiedUpdate) throws(UpdateError) -> VerifiedBundle {
        guard case .bundle(let bundle) = update else {
            throw UpdateError(
                .wrongImageFormat,
                "the file is an MCUboot image, and the device's GATT OTA profile accepts only signed bundles",
                remedy: .bundle)
        }
        return bundle
    }

    private static func images(of update: VerifiedUpdate) throws(UpdateError) -> [SMPImage] {
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

/// An update protocol that otaflash recognizes by its GATT service, but does not support.
private enum ForeignProtocol: String {
    case nordicSecureDFU = "Nordic Secure DFU"
    case nordicLegacyDFU = "Nordic Legacy DFU"
    case espressifOTA = "Espressif BLE OTA"

    /// Finds the protocol whose service is in `channels`; nil if `channels` contains no known service.
    init?(_ channels: Set<Channel>) {
        guard let found = channels.lazy.compactMap({ Self.protocols[$0.service] }).first else { return nil }
        self = found
    }

    /// The protocols by the UUID of their GATT service. The sources are `DFUUuidHelper.swift` in IOS-DFU-Library, and `ble_ota` in
    /// esp-iot-solution.
    private static let protocols: [UInt128: ForeignProtocol] = [
        0x0000_FE59_0000_1000_8000_0080_5F9B_34FB: .nordicSecureDFU,
        0x0000_1530_1212_EFDE_1523_785F_EABC_D123: .nordicLegacyDFU,
        0x0000_8018_0000_1000_8000_0080_5F9B_34FB: .espressifOTA,
    ]
}
