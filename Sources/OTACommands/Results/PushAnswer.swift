import OTAFirmware
import OTASigning
import OTAUpdate

/// What a push answers with.
struct PushAnswer: Answer {
    let bundle: BundleSummary?
    /// The first one; `images` has all of them where there are several.
    let image: PushedImage?
    let images: [PushedImage]?
    let device: DeviceSummary
    let updateProtocol: UpdateProtocol
    let transfer: TransferSummary?
    /// `confirmed`, `on-trial`, `already-running` or `uploaded`.
    let outcome: String
    /// Fields of the bundle that SMP could not check against the device; absent if all were checked.
    let unchecked: [String]?
    /// What to type before the trial is over, and in how many seconds; 0: before the next restart.
    private let due: (command: String, seconds: Int)?

    private enum CodingKeys: String, CodingKey {
        case bundle, image, images, device, transfer, outcome, unchecked
        case updateProtocol = "protocol"
    }

    init(_ update: VerifiedUpdate, _ outcome: DeviceOutcome, _ invocation: Invocation) {
        switch update {
        case .bundle(let bundle):
            self.bundle = BundleSummary(bundle.bundle.envelope, reports: bundle.signatures)
            (image, images) = (nil, nil)
        case .images(let numbered):
            let all = numbered.map { PushedImage($0) }
            (bundle, image, images) = (nil, all.first, all.count > 1 ? all : nil)
        }
        device = DeviceSummary(outcome)
        updateProtocol = outcome.updateProtocol
        transfer = outcome.report.transfer.map { TransferSummary($0, linkBound: outcome.linkBound) }
        unchecked = outcome.report.unchecked.isEmpty ? nil : outcome.report.unchecked
        switch outcome.report.outcome {
        case .confirmed: (self.outcome, due) = ("confirmed", nil)
        case .done: (self.outcome, due) = ("uploaded", nil)
        case .onTrial(let seconds):
            (self.outcome, due) = ("on-trial", (invocation.again.line("confirm", withFile: false), seconds))
        case .alreadyRunning: (self.outcome, due) = ("already-running", nil)
        }
    }

    var lines: [TerminalLine] {
        ([verdict] + (due.map { [Self.advice($0)] } ?? []) + (transfer?.sentences ?? [])).map { TerminalLine($0) }
    }

    private var verdict: String {
        let before = device.previousVersion.map { "; before, it ran \($0)" } ?? ""
        switch outcome {
        case "on-trial": return "\(device.title) runs \(device.runningVersion), on trial\(before)."
        case "already-running":
            return "\(device.title) runs \(device.runningVersion) already, confirmed: nothing was sent."
        case "uploaded":
            return "\(device.title) holds the image, and runs \(device.runningVersion): it is marked for no start."
        default: return "\(device.title) now runs \(device.runningVersion), confirmed\(before)."
        }
    }

    private static func advice(_ due: (command: String, seconds: Int)) -> String {
        let time = due.seconds > 0 ? "Within \(due.seconds) s of its start" : "Before its next restart"
        return "\(time), before it goes back by itself, type: \(due.command)"
    }
}
