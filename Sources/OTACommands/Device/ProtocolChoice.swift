import OTAFirmware
import OTAProfile
import OTASMP
import OTASigning
import OTAUpdate

/// Which protocol fits what is to be done, what the device offers and what the user wants; and the session that speaks it.
struct ProtocolChoice: Sendable {
    let task: DeviceTask
    /// Nil: any.
    let forced: UpdateProtocol?

    /// - Throws: `unsupportedDevice` where the device offers neither, `wrongImageFormat` where the file is not for what it
    ///   offers.
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
            throw UpdateError(.unsupportedDevice, "it offers neither the OTA service nor that of MCUmgr (SMP)")
        }
    }

    /// - Parameter seed: for what a session leaves to chance.
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
                            .unsupportedDevice, "the GATT OTA profile has no upload after which nothing is started")
                    }
                return .push(
                    bundle,
                    PushOptions(resume: request.resume, ending: ending, refusesDowngrade: request.refusesDowngrade))
            case .push(.images, _):
                throw UpdateError(
                    .wrongImageFormat,
                    "the device speaks the GATT OTA profile, which takes signed bundles, and this is an MCUboot image")
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
            let format = bundle.bundle.envelope.manifest.imageFormat
            guard format == .mcuboot else {
                throw UpdateError(
                    .wrongImageFormat,
                    "the device speaks SMP and boots MCUboot images, and the bundle holds one of the kind \(format.name)"
                )
            }
            do {
                return [SMPImage(try bundle.mcubootImage())]
            } catch {
                throw UpdateError(.wrongImageFormat, "the bundle's image is no MCUboot image: \(error)")
            }
        }
    }
}
