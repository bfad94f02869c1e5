import ArgumentParser
import OTAFirmware
import OTASigning
import OTAUpdate

struct Push: Verb {
    static let name = "push"
    static let isLong = true
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Update a device: send a bundle, have it tried, and confirm it.",
        discussion: """
            The bundle is verified before anything is sent. A lost link is resumed within one run; what an earlier run \
            left on the device is taken up with --resume, and given up without it. A device that does not come up with \
            the new image goes back to the old one by itself.
            """)

    @Argument(help: "The bundle.", completion: .file())
    var bundle: String

    @OptionGroup var target: DeviceOptions
    @OptionGroup var trust: TrustOptions

    @Flag(help: "Go on from where an earlier run stopped.")
    var resume = false

    @Flag(help: "Leave the new image on trial; 'otaflash confirm' makes it stay.")
    var noConfirm = false

    @Flag(help: "Make the image stay at once: for a device that has no trial, and so no way back.")
    var permanent = false

    @Flag(help: "Refuse a version lower than the one that runs.")
    var noDowngrade = false

    @Flag(help: "Take a bundle that only the demo key has signed; for sim: that needs no leave.")
    var allowDemoKey = false

    @OptionGroup(title: "Output options") var options: OutputOptions

    func validate() throws {
        if noConfirm, permanent { throw ValidationError("'--no-confirm' and '--permanent' exclude each other.") }
    }

    var situation: Situation {
        var situation = Situation(command: Self.name, file: bundle, target, trust: trust.trust)
        let flags = [
            (resume, "--resume"), (noConfirm, "--no-confirm"), (permanent, "--permanent"),
            (noDowngrade, "--no-downgrade"), (allowDemoKey, "--allow-demo-key"),
        ]
        situation.options = flags.filter(\.0).map(\.1)
        return situation
    }

    func answer(_ console: Console) async throws -> PushAnswer {
        let address = try target.address()
        let signed = try SignedBundle(parsing: WholeFile.contents(of: bundle))
        let store = try trust.store(console)
        let policy = TrustPolicy(allowsDemoKey: allowDemoKey || address.isSimulated)
        let verified = try Verifier(trust: store, policy: policy).verify(signed)
        let ending: PushRequest.Ending = permanent ? .permanent : noConfirm ? .trial : .confirm
        let request = PushRequest(resume: resume, ending: ending, refusesDowngrade: noDowngrade)
        let outcome = try await Wiring(console: console, situation: situation)
            .perform(.push(verified, request), on: target, trust: store)
        return PushAnswer(BundleSummary(signed.envelope, reports: verified.signatures), outcome, situation)
    }
}

struct PushAnswer: Answer {
    let bundle: BundleSummary
    let device: DeviceSummary
    let transfer: TransferSummary?
    /// `confirmed`, `on-trial` or `already-running`.
    let outcome: String
    /// What to type before the trial is over, and in how many seconds.
    let due: (command: String, seconds: Int)?

    private enum CodingKeys: CodingKey {
        case bundle, device, transfer, outcome
    }

    init(_ bundle: BundleSummary, _ outcome: DeviceOutcome, _ situation: Situation) {
        self.bundle = bundle
        device = DeviceSummary(outcome)
        transfer = outcome.report.transfer.map { TransferSummary($0, linkBound: outcome.linkBound) }
        switch outcome.report.outcome {
        case .confirmed, .done:
            self.outcome = "confirmed"
            due = nil
        case .onTrial(let seconds):
            self.outcome = "on-trial"
            due = (situation.again.line("confirm", withFile: false), seconds)
        case .alreadyRunning:
            self.outcome = "already-running"
            due = nil
        }
    }

    var text: String {
        let before = device.previousVersion.map { "; before, it ran \($0)" } ?? ""
        var lines: [String]
        if let due {
            lines = [
                "\(device.title) runs \(device.runningVersion), on trial\(before).",
                "Within \(due.seconds) s of its start, before it goes back by itself, type: \(due.command)",
            ]
        } else if outcome == "already-running" {
            lines = ["\(device.title) runs \(device.runningVersion) already, confirmed: nothing was sent."]
        } else {
            lines = ["\(device.title) now runs \(device.runningVersion), confirmed\(before)."]
        }
        return (lines + (transfer?.sentences ?? [])).joined(separator: "\n")
    }
}
