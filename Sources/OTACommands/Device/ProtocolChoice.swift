import OTAFirmware
import OTAProfile
import OTASMP
import OTASigning
import OTAUpdate

/// Chooses the protocol for a task, a device and the user's options, and creates its session.
struct ProtocolChoice: Sendable {
    let task: DeviceTask
    /// The value of `--protocol`; nil: any protocol.
    let forced: UpdateProtocol?

    /// Returns the protocol for a device.
    ///
    /// - Parameter link: the open link, with the channels that the device offers.
    /// - Throws: `unsupportedDevice` if the device offers neither protocol.
    func choice(of link: LinkProperties) throws(UpdateError) -> UpdateProtocol {
        if let forced { return forced }
        let offersProfile = link.channels.contains { $0.service == ProfileChannel.service }
        let offersSMP = link.channels.contains(SMPChannel.value)
        switch (offersProfile, offersSMP) {
        case (true, true):
            if case .push(.images, _) = task { return .smp }
            return .ota
        case (true, false): return .ota
        case (false, true): return .smp
        case (false, false):
            throw UpdateError(.unsupportedDevice, "it offers neither the OTA service nor the SMP service of MCUmgr")
        }
    }

    /// Creates the session of a protocol.
    ///
    /// - Parameter seed: the seed of the session's random numbers.
    /// - Throws: `wrongImageFormat`, `unsupportedDevice`.
    func session(_ updateProtocol: UpdateProtocol, seed: UInt64) throws(UpdateError) -> any UpdateSession {
        switch updateProtocol {
        case .ota: ProfileSession(try profileTask, seed: seed)
        case .smp: SMPSession(try smpTask, seed: seed)
        }
    }

    private var profileTask: ProfileTask {
        get throws(UpdateError) {
            switch task {
            case .push(.bundle(let bundle), let request):
                let ending: PushOptions.Ending =
                    switch request.ending {
                    case .confirm: .confirm
                    case .trial: .trial
                    case .permanent: .permanent
                    case .uploadOnly:
                        throw UpdateError(
                            .unsupportedDevice, "the GATT OTA profile does not support an upload without a restart")
                    }
                return .push(
                    bundle,
                    PushOptions(resume: request.resume, ending: ending, refusesDowngrade: request.refusesDowngrade))
            case .push(.images, _):
                throw UpdateError(
                    .wrongImageFormat,
                    "the file is an MCUboot image, and the device's GATT OTA profile accepts only signed bundles")
            case .status: return .status
            case .confirm: return .confirm
            case .discard: return .discard
            case .identify(let seconds): return .identify(seconds: seconds)
            }
        }
    }

    private var smpTask: SMPTask {
        get throws(UpdateError) {
            switch task {
            case .push(let update, let request):
                let ending: SMPPushOptions.Ending =
                    switch request.ending {
                    case .confirm: .confirm
                    case .trial: .trial
                    case .permanent: .permanent
                    case .uploadOnly: .uploadOnly
                    }
                return .push(
                    try Self.images(of: update),
                    SMPPushOptions(
                        ending: ending, refusesDowngrade: request.refusesDowngrade,
                        acceptsUncheckedTarget: request.acceptsUncheckedTarget))
            case .status: return .status
            case .confirm: return .confirm
            case .discard: return .discard
            case .identify: return .identify
            }
        }
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
