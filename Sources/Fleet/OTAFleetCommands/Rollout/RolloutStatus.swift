import ArgumentParser
import OTACommands
import OTAFleet
import OTAStore

/// The command `rollout status`, which shows one rollout.
struct RolloutStatus: Command {
    static let name = "rollout status"
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show the progress of a rollout.",
        discussion: """
            Example: otaflash rollout status spring --operators ops.pub.pem --wait

            status shows the state of the rollout, its stage, and the number of devices in each state. 'otaflash rollout \
            create --help' defines the states of a finished device. The known devices are the enrolled devices in \
            'otaflash fleet devices' that the rollout admits and that are not held. Only devices with a product in \
            that list count: a gateway writes the product when the first update of a device starts. Until the rollout \
            is complete, a gateway also updates the devices that it finds later.

            A rollout is complete when its last stage has started, and all known devices (at least one) have been finished for 24 h. \
            With --wait, status ends in these cases:

              exit 0   the last stage has started, and all known devices (at least
                       one) have been finished for 10 s; or the rollout is already
                       complete
              exit 78  the rollout is halted
              exit 75  the rollout is paused or aborted, or the time of --timeout is over
              exit 69  the store cannot be reached at the start, or later for 5 minutes

            During the wait, status prints each new stage and state, and the new numbers of devices every 10 s at most. In the other \
            states, the wait continues: waiting (no controller has started the rollout yet) and running. It does not \
            end when the rollout expires, so give --timeout. Exit 0 does not mean that all devices are done: see the numbers of \
            failed and refused devices. Without --wait, the exit status is 0 in each state of the rollout.
            """)

    @Argument(help: "The name of the rollout.")
    var name: String

    @Flag(help: "Wait until one of the cases above. Default: show the present state, and end.")
    var wait = false

    @Option(
        help: TimeLimit.help("With --wait, stop with exit 75 after this time", "no limit"),
        transform: TimeLimit.init(option:))
    var timeout: TimeLimit?

    @OptionGroup var operators: OperatorOptions
    @OptionGroup var store: StoreOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    /// How long all known devices must have ended. When a stage starts, the gateways need a moment to start the next devices.
    private static let settleTime = Duration.seconds(10)
    /// How long the store may be unavailable during a wait.
    private static let absence = Duration.seconds(300)

    func answer(_ console: Console) async throws -> RolloutAnswer {
        let name = try RolloutName(reading: name)
        let operators = try operators.keys(console)
        return try await store.withStore(for: console) { store in
            guard wait else {
                let rollout = try await store.rollout(name, operators)
                let devices = try await StoredDevices(store, operators)
                devices.warn(console)
                return RolloutAnswer(try await RolloutSummary.read(rollout, devices, store, console))
            }
            return try await waited(name, operators, store, console)
        }
    }

    /// Waits until the rollout is complete, halted, paused or aborted.
    private func waited(
        _ name: RolloutName, _ operators: OperatorKeys, _ store: any FleetStore, _ console: Console
    ) async throws -> RolloutAnswer {
        let begun = ContinuousClock.now
        var settled: ContinuousClock.Instant?
        var last: ContinuousClock.Instant?
        var warned: Set<RecordName> = []
        var progress = WaitProgress()
        while true {
            let start = ContinuousClock.now
            let (rollout, summary): (Rollout, RolloutSummary)
            do {
                let stored = try await store.rollout(name, operators)
                let devices = try await StoredDevices(store, operators)
                devices.warn(console, except: &warned)
                (rollout, summary) = (stored.value, try await RolloutSummary.read(stored, devices, store, console))
                last = .now
            } catch let error as StoreError where [.unavailable, .recordsLost].contains(error.code) {
                // A restart of the server must not end the wait.
                guard let last, last.duration(to: .now) < Self.absence else { throw error }
                try await Task.sleep(for: .seconds(2))
                continue
            }
            progress.show(summary, at: start, console)
            if !summary.isFinished { settled = nil }
            if summary.isFinished, settled == nil { settled = .now }
            let isFinished = settled.map { $0.duration(to: .now) >= Self.settleTime } ?? false
            switch summary.state {
            case "complete": return RolloutAnswer(summary)
            case "running" where isFinished: return RolloutAnswer(summary)
            case "halted": return RolloutAnswer(summary, failure: Self.halted(summary, rollout.halt))
            case "paused", "aborted": return RolloutAnswer(summary, failure: Self.stopped(summary))
            default: break
            }
            if let timeout, begun.duration(to: .now) >= timeout.duration {
                return RolloutAnswer(
                    summary,
                    failure: Failure(
                        "timed-out", .linkLost, "the rollout \(name) was not complete in the time of --timeout",
                        hint: timeoutHint(summary)))
            }
            // A large fleet has many records. The wait uses at most a fifth of one processor.
            try await Task.sleep(for: max(.milliseconds(500), start.duration(to: .now) * 4))
        }
    }

    private func timeoutHint(_ summary: RolloutSummary) -> String {
        if summary.state == "waiting" {
            guard store.isOnServer else {
                return
                    "no gateway has run with this store, and a gateway also controls its rollouts: otaflash gateway run --help"
            }
            return
                "no controller of the rollout has started it: check that one runs, or start it: otaflash fleet run --key "
                + "KEY.pem"
        }
        if summary.devices?.total == 0, summary.notEnrolled != nil {
            return
                "no known device of the rollout is enrolled: create another rollout: otaflash rollout create NAME --enrolled "
                + "FILE"
        }
        return "show the devices: otaflash fleet devices"
    }

    private static func halted(_ summary: RolloutSummary, _ halt: Rollout.Halt) -> Failure {
        let failed = Figures.count(summary.devices?.failed ?? 0, "device")
        let reasons = summary.failureText.map { " (given up because of: \($0))" } ?? ""
        return Failure(
            "rollout-halted", .rolledBack,
            "the rollout \(summary.name) halted in stage \(summary.stage): \(failed) failed\(reasons); "
                + "its limit is --halt \(halt.failedPercent)%,min=\(halt.minimum)",
            hint: "show the devices: otaflash fleet devices --state given-up; to continue: otaflash rollout resume "
                + "\(summary.name) --key KEY.pem")
    }

    private static func stopped(_ summary: RolloutSummary) -> Failure {
        Failure(
            "rollout-stopped", .linkLost, "the rollout \(summary.name) is \(summary.state)",
            hint: summary.state == "paused"
                ? "continue it: otaflash rollout resume \(summary.name) --key KEY.pem"
                : "create a new rollout: otaflash rollout create NAME --release \(summary.release)")
    }
}

/// The progress that a wait prints: each new state and stage at once, and new numbers of devices every 10 s at most.
private struct WaitProgress {
    private static let period = Duration.seconds(10)
    private var shown: (phase: String, numbers: String, at: ContinuousClock.Instant)?

    mutating func show(_ summary: RolloutSummary, at now: ContinuousClock.Instant, _ console: Console) {
        let phase =
            summary.state == "waiting"
            ? "no controller has started it yet" : "\(summary.text), stage \(summary.stage) of \(summary.stages)"
        let numbers =
            summary.devices.map {
                ": \($0.done) of \($0.total) done, \($0.running) running, \($0.failed) failed, \($0.refused) refused"
            } ?? ""
        if let shown, shown.phase == phase {
            guard shown.numbers != numbers, shown.at.duration(to: now) >= Self.period else { return }
        }
        console.note("\(summary.name): \(phase)\(numbers)")
        shown = (phase, numbers, now)
    }
}

extension RolloutName {
    /// Parses the argument of a command.
    init(reading text: String) throws(Failure) {
        guard let name = RolloutName(text) else {
            throw .usage("'\(text)' is not a name of a rollout", hint: "list the rollouts: otaflash rollout list")
        }
        self = name
    }
}

/// The command `rollout list`, which lists the rollouts in the store.
struct RolloutList: Command {
    static let name = "rollout list"
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the rollouts.",
        discussion: """
            Example: otaflash rollout list --operators ops.pub.pem

            list shows the rollouts that an operator has signed. For each other rollout in the store, it prints a warning.
            """)

    @OptionGroup var operators: OperatorOptions
    @OptionGroup var store: StoreOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) async throws -> RolloutListAnswer {
        let operators = try operators.keys(console)
        return try await store.withStore(for: console) { store in
            let devices = try await StoredDevices(store, operators)
            devices.warn(console)
            let rollouts = try await RolloutSummary.all(operators, devices, store, console).map(\.summary)
            return RolloutListAnswer(rollouts: rollouts)
        }
    }
}

/// The result of `rollout list`.
struct RolloutListAnswer: TableAnswer {
    let rollouts: [RolloutSummary]

    func text(fitting width: Int?) -> [TerminalLine] {
        guard !rollouts.isEmpty else { return ["no rollouts"] }
        return TextTable(rollouts.map(\.cells), identifiers: ["rollout", "release"]).lines(fitting: width)
    }
}
