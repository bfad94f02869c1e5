import OTAClient
import OTAFirmware
import OTASigning
import OTAUpdate

/// The result of the command `push`.
struct PushAnswer: CommandAnswer {
    let bundle: BundleSummary?
    /// The first MCUboot image of the file; nil if the file is a bundle. If the file has several images, `images` contains all of them. If
    /// the file has one image, `images` is nil.
    let image: PushedImage?
    let images: [PushedImage]?
    let device: DeviceSummary
    let updateProtocol: UpdateProtocol
    let transfer: TransferSummary?
    /// The transfer that a dry run predicts. Nil if the push was not a dry run, or if the push would change nothing on the device.
    let plan: Plan?
    /// The outcome of the push: `confirmed`, `on-trial`, `already-running`, `returned`, `uploaded` or
    /// `would-update`.
    let outcome: String
    /// The fields of the bundle that SMP could not check against the device; nil if all fields were checked.
    let unchecked: [String]?
    /// The numbers of the images whose running version is unknown, because the device does not list them; nil if it lists all images.
    let unlistedImages: [Int]?
    /// The command that confirms the image on trial, and the time limit of the trial in seconds. With the limit 0, the trial ends at the
    /// next restart. Nil if no image is on trial after the push.
    private let due: (command: String, seconds: Int)?
    /// True if an image that does not run is marked for the next boot. If the value is true after `push --upload-only`, an earlier command
    /// set the mark, because `push --upload-only` marks no image.
    private let isMarked: Bool
    /// True for a push with `--upload-only`.
    private let isUpload: Bool
    /// The command that restarts the device.
    private let restart: String
    var describesDevice: Bool { true }

    private enum CodingKeys: String, CodingKey {
        case bundle, image, images, device, transfer, plan, outcome, unchecked, unlistedImages
        case updateProtocol = "protocol"
    }

    /// Describes the pushed file: a bundle, one image or several images.
    static func summary(
        of update: VerifiedUpdate
    ) -> (bundle: BundleSummary?, image: PushedImage?, images: [PushedImage]?) {
        switch update {
        case .bundle(let bundle): return (BundleSummary(bundle.envelope, reports: bundle.signatures), nil, nil)
        case .images(let numbered):
            let all = numbered.map { PushedImage($0) }
            return (nil, all.first, all.count > 1 ? all : nil)
        }
    }

    init(_ update: VerifiedUpdate, _ outcome: UpdateResult, _ invocation: Invocation, isUpload: Bool) {
        self.isUpload = isUpload
        (bundle, image, images) = Self.summary(of: update)
        device = DeviceSummary(outcome)
        isMarked = outcome.report.device.slots.contains { $0.isPending == true && $0.isActive != true }
        restart = invocation.again.line("restart", withFile: false)
        unlistedImages = outcome.report.unlistedImages.isEmpty ? nil : outcome.report.unlistedImages
        updateProtocol = outcome.report.updateProtocol
        transfer = outcome.report.transfer.map { TransferSummary($0, linkBound: outcome.linkBound) }
        unchecked = outcome.report.unchecked.isEmpty ? nil : outcome.report.unchecked
        var due: (command: String, seconds: Int)?
        var plan: Plan?
        switch outcome.report.outcome {
        case .confirmed: self.outcome = "confirmed"
        case .done: self.outcome = "uploaded"
        case .onTrial(let seconds):
            self.outcome = "on-trial"
            due = (invocation.again.line("confirm", withFile: false), seconds)
        case .alreadyRunning: self.outcome = "already-running"
        case .returned: self.outcome = "returned"
        case .wouldUpdate(let planned):
            self.outcome = "would-update"
            plan = Plan(planned)
        }
        (self.due, self.plan) = (due, plan)
    }

    var lines: [TerminalLine] {
        ([verdict] + (due.map { [Self.advice($0)] } ?? []) + (transfer?.sentences ?? [])
            + (device.link.map { ["The link was \($0.text)."] } ?? [])).map { TerminalLine($0) }
    }

    private var title: String { device.title(over: updateProtocol) }

    /// The outcome in a few words, for example `confirmed 1.1.0`.
    var end: String {
        switch outcome {
        case "would-update": "would be updated"
        case "uploaded": outcome
        case "returned": "restarted into the new image, version not reported"
        default: "\(outcome.replacing("-", with: " ")) \(device.version)"
        }
    }

    private var verdict: String {
        let same = "another image with this version"
        let before = device.previousVersion.map { " (before: \($0 == device.runningVersion ? same : $0))" } ?? ""
        switch outcome {
        case "would-update": return intention
        case "on-trial": return "\(title) runs \(device.version), on trial\(before)."
        case "already-running":
            return "\(title) already runs \(device.version), confirmed: nothing was sent."
        case "returned":
            let version = bundle?.version ?? image?.version ?? ""
            return
                "\(title) has received \(version) and left its firmware loader. It does not report which version runs."
        case "uploaded":
            let mark = isMarked ? "already marked for the next boot" : "not marked for boot"
            guard let running = device.runningVersion else {
                return "\(title) holds the new image. To boot it, restart the device: \(restart)"
            }
            return "\(title) holds the new image, \(mark), and still runs \(running)."
        default: return "\(title) now runs \(device.version), confirmed\(before)."
        }
    }

    /// The sentences of a dry run for the user. They describe the effect that the same push would have without `--dry-run`.
    private var intention: String {
        let bytes = plan?.bytes ?? 0
        var amount = bytes > 0 ? "\(Figures.bytes(plan?.encodedBytes ?? bytes)) to send" : "nothing to send"
        if let offset = plan?.resumeFrom, offset > 0 { amount += ", from byte \(offset)" }
        if plan?.encodedBytes != nil {
            let form = plan?.base.map { "a delta from \($0.title)" } ?? "compressed"
            amount += ", \(form), in place of \(Figures.bytes(bytes))"
        }
        let discarded = plan?.discards ?? 0
        let loss = discarded > 0 ? " The device would discard a partial upload of \(Figures.bytes(discarded))." : ""
        let version = bundle?.version ?? image?.version ?? ""
        if isUpload { return "\(title) would receive \(version): \(amount).\(loss)" }
        if device.confirmed == false {
            return "\(title) runs \(device.version) on trial, and would be confirmed: \(amount)."
        }
        return "\(title) would be updated from \(device.version) to \(version): \(amount).\(loss)"
    }

    private static func advice(_ due: (command: String, seconds: Int)) -> String {
        let time = due.seconds > 0 ? "within \(due.seconds) s of boot" : "before the next restart"
        return "To keep the new image, confirm it \(time): \(due.command)"
    }
}

/// The transfer that a push would do.
struct Plan: Encodable, Sendable {
    /// The offset at which the transfer would start, in bytes. Nil, or the size of the image, if nothing is left to send. Also nil if
    /// the device does not report the offset.
    let resumeFrom: Int?
    /// The number of image bytes to send, before they are encoded.
    let bytes: Int
    /// The size of the partial upload that the device would discard, in bytes. Nil if the device does not report the size.
    let discards: Int?
    /// The size of the encoded image that the push would send in place of the image bytes; nil: the push would send the image plain.
    let encodedBytes: Int?
    /// The base of the encoded image; nil if the image would only be compressed or sent plain.
    let base: TransferSummary.Base?

    init(_ plan: UpdatePlan) {
        (resumeFrom, bytes, discards) = (plan.resumeFrom, plan.bytes, plan.discards)
        encodedBytes = plan.encodedBytes
        base = plan.base.map { TransferSummary.Base($0) }
    }
}

/// A pushed MCUboot image and the authorization to install it.
struct PushedImage: Encodable, Sendable {
    /// The image number of MCUboot; 0 on a device with one image.
    let imageNumber: UInt32
    let version: String
    /// The size of the image in bytes, from the header to the last TLV.
    let size: Int
    /// The SHA-256 of the bytes to send. A device with SMP recognizes a partial upload of these bytes by this digest.
    let sha256: String
    /// The kind of authorization: `signature`, `bundle`, or `consent` (option `--unverified-image`).
    let authorization: String
    /// The id of the trusted key that signed the image or its bundle; if several trusted keys signed the bundle, the id of the first one.
    /// Nil if `authorization` is `consent`.
    let keyID: String?
    /// The error code of the failed verification; nil if `authorization` is not `consent`.
    let unverified: String?

    init(_ numbered: NumberedImage) {
        let image = numbered.image
        imageNumber = numbered.number
        version = image.image.version.description
        size = image.bytes.count
        sha256 = image.fileDigest.description
        switch image.authorization {
        case .signature(let key): (authorization, keyID, unverified) = ("signature", key.description, nil)
        case .bundle(let keys): (authorization, keyID, unverified) = ("bundle", keys.first?.description, nil)
        case .consent(let consent): (authorization, keyID, unverified) = ("consent", nil, consent.reason.rawValue)
        }
    }
}
