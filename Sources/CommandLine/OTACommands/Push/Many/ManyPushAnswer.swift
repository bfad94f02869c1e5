import OTAClient
import OTASigning
import OTAUpdate

/// The result of a push to several devices.
struct ManyPushAnswer: TableAnswer {
    /// The result of one device.
    struct Entry: Encodable, Sendable {
        /// The address that the user gave, or with `--all` the address that the scan found.
        let given: String
        /// The Bluetooth adapter of the device; nil if the push does not use several adapters.
        var adapter: String?
        /// The result of the push; nil if the push failed or did not start.
        var answer: PushAnswer?
        /// The failure of the push; nil if the push succeeded or did not start.
        var failure: Failure?
        /// The warnings about the device.
        var warnings: [String] = []
        /// The duration of the push in seconds; nil if the push did not start.
        var seconds: Double?

        init(_ given: String) { self.given = given }

        private enum CodingKeys: String, CodingKey {
            case device, adapter, transfer, plan, outcome, unchecked, ok, exit, seconds, warnings
            case updateProtocol = "protocol"
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(answer != nil, forKey: .ok)
            try container.encodeIfPresent(seconds.map(Figures.rounded), forKey: .seconds)
            try container.encode(outcome, forKey: .outcome)
            try container.encodeIfPresent(adapter, forKey: .adapter)
            if !warnings.isEmpty { try container.encode(warnings, forKey: .warnings) }
            if seconds != nil { try container.encode((failure?.exit ?? .done).rawValue, forKey: .exit) }
            guard let answer else {
                try container.encode(GivenDevice(given: given), forKey: .device)
                try failure.map { JSONFailure($0) }?.encode(to: encoder)
                return
            }
            try container.encode(answer.device, forKey: .device)
            try container.encode(answer.updateProtocol, forKey: .updateProtocol)
            try container.encodeIfPresent(answer.transfer, forKey: .transfer)
            try container.encodeIfPresent(answer.plan, forKey: .plan)
            try container.encodeIfPresent(answer.unchecked, forKey: .unchecked)
        }

        /// The name of a Bluetooth device. The address of a virtual device already contains its name.
        fileprivate var name: String? { answer.flatMap { $0.device.address.hasPrefix("sim:") ? nil : $0.device.name } }

        /// The transfer; nil if nothing was sent.
        fileprivate var sent: TransferSummary? { answer?.transfer.flatMap { $0.sentBytes > 0 ? $0 : nil } }

        var outcome: String { answer?.outcome ?? (failure == nil ? "not-started" : "failed") }
    }

    /// The number of devices with each outcome.
    struct Summary: Encodable, Sendable {
        let confirmed, alreadyRunning, onTrial, returned, uploaded, wouldUpdate, failed, notStarted: Int

        init(_ entries: [Entry]) {
            func count(_ outcome: String) -> Int { entries.count { $0.outcome == outcome } }
            confirmed = count("confirmed")
            alreadyRunning = count("already-running")
            onTrial = count("on-trial")
            returned = count("returned")
            uploaded = count("uploaded")
            wouldUpdate = count("would-update")
            failed = count("failed")
            notStarted = count("not-started")
        }

        var text: String {
            let parts = [
                (confirmed, "confirmed"), (alreadyRunning, "already running"), (onTrial, "on trial"),
                (returned, "restarted without a version"), (uploaded, "uploaded"), (wouldUpdate, "would be updated"),
                (failed, "failed"),
                (notStarted, "not started"),
            ]
            return parts.filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }.joined(separator: ", ")
        }
    }

    let bundle: BundleSummary?
    let image: PushedImage?
    let images: [PushedImage]?
    let devices: [Entry]
    let summary: Summary
    let seconds: Double
    private let invocation: Invocation
    private let retry: Invocation?
    private let isInterrupted: ExitStatus?
    var describesDevice: Bool { true }

    private enum CodingKeys: CodingKey {
        case bundle, image, images, devices, summary, seconds
    }

    /// - Parameters:
    ///   - retry: the user's arguments for a push to the devices that were not updated; nil if no file has this result.
    ///   - interrupted: the exit status of the signal that stopped the push; nil: no signal.
    init(
        _ update: VerifiedUpdate, _ devices: [Entry], seconds: Double, _ invocation: Invocation,
        retry: Invocation?, interrupted: ExitStatus?
    ) {
        (bundle, image, images) = PushAnswer.summary(of: update)
        self.devices = devices
        self.seconds = Figures.rounded(seconds)
        self.invocation = invocation
        self.retry = retry
        isInterrupted = interrupted
        summary = Summary(devices)
    }

    func text(fitting width: Int?) -> [TerminalLine] {
        guard !devices.isEmpty else { return ["The report has no device that was not updated: nothing was sent."] }
        let sum = "\(Self.number(devices.count)): \(summary.text); \(Figures.time(seconds))."
        return table.lines(fitting: width) + [TerminalLine(sum)] + warningLines
    }

    /// A row for each device. A column without a value is omitted, and FORM if each image was sent plain.
    private var table: TextTable {
        let isEncoded = devices.contains { $0.sent?.encodedBytes != nil }
        return TextTable(
            devices: devices,
            [
                (.identifier("DEVICE"), \.given), ("NAME", \.name), ("ADAPTER", \.adapter),
                ("RESULT", { $0.failure?.code ?? $0.outcome }), ("VERSION", { $0.answer?.device.versions }),
                ("TIME", { $0.seconds.map(Figures.time) }), ("SENT", { ($0.sent?.sentBytes).map(Figures.bytes) }),
                ("FORM", { isEncoded ? $0.sent?.form : nil }),
            ], \.failure)
    }

    /// The warnings about the devices: a line for each text, with the devices that have it.
    private var warningLines: [TerminalLine] {
        var texts: [String] = []
        var names: [String: [String]] = [:]
        for entry in devices {
            for text in entry.warnings {
                if names[text] == nil { texts.append(text) }
                names[text, default: []].append(entry.given)
            }
        }
        return texts.map { TerminalLine("warning: \($0): \((names[$0] ?? []).joined(separator: ", "))") }
    }

    var testCases: [JUnitReport.Case]? {
        devices.map { entry in
            let outcome: JUnitReport.Case.Outcome =
                if let failure = entry.failure {
                    .failed(failure)
                } else if let answer = entry.answer {
                    .passed(answer.lines)
                } else {
                    .skipped("the update was not started")
                }
            return JUnitReport.Case(
                name: entry.given, seconds: entry.seconds ?? 0, outcome: outcome, warnings: entry.warnings)
        }
    }

    private static func number(_ devices: Int) -> String { devices == 1 ? "1 device" : "\(devices) devices" }

    var failure: Failure? {
        let missing = devices.count { $0.answer == nil }
        guard missing > 0 else { return nil }
        let exit = isInterrupted ?? .several(devices.compactMap(\.failure))
        return Failure(
            "devices-not-updated", exit, "not updated: \(missing) of \(Self.number(devices.count))",
            hint: hint(for: exit))
    }

    private func hint(for exit: ExitStatus) -> String {
        // A device that ended `returned` would receive the image again, and end the push again (`PushQueue.End.returned`).
        if summary.returned > 0, summary.notStarted > 0 {
            let others = retry.map { ": \($0.line(adding: "--first 0"))" } ?? ""
            return "check that the devices with the result 'returned' work; then push to the others with --first 0"
                + others
        }
        let begin = isInterrupted != nil ? "to continue, " : exit == .linkLost ? "" : "correct the causes, then "
        let again =
            retry.map { "update only these devices: \($0.line())" }
            ?? "run the same command again, which sends nothing to the devices that run the image: \(invocation.line())"
        return begin + again
    }
}
