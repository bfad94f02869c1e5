import ArgumentParser
import OTACommands
import OTAFleet
import OTAStore

/// The arguments of a command that changes the state of a rollout.
struct RolloutChangeOptions: ParsableArguments {
    @Argument(help: "The name of the rollout.")
    var name: String

    @OptionGroup var signing: SigningOptions
    @OptionGroup var store: StoreOptions

    /// The time for the count of the devices. On a server, a large fleet needs more: `rollout status` has no limit.
    private static let countTime = Duration.seconds(10)

    /// Signs the next version of the rollout, and writes it to the store. If the rollout already has the state, nothing is written.
    ///
    /// Before the write, this method reads only the rollout and its progress: neither a large fleet nor another damaged record may delay or
    /// prevent an abort.
    ///
    /// - Parameter release: the release for an abort if the record of the rollout cannot be read; nil: such a record is an error.
    /// - Throws: `bad-rollout-change`, also for a resume of a complete rollout that is not paused, which has nothing to continue; the errors
    ///   of ``RolloutRecord``.
    func change(
        to state: Rollout.State, release: ReleaseID? = nil, _ console: Console
    ) async throws -> RolloutAnswer {
        let name = try RolloutName(reading: name)
        let (signer, operators, isAlone) = try signing.allKeys(console)
        return try await store.withStore(for: console) { store in
            let record = try await RolloutRecord(name, in: store)
            if isAlone, release == nil { try record.requireSignature(by: signer) }
            if state != .aborted {
                let present = try record.rollout(operators)
                if try await has(state, present, store) {
                    let name = state == .paused ? "is already paused" : "is not paused or halted"
                    console.note("the rollout \(present.value.name) \(name): nothing changes")
                    return RolloutAnswer(await counted(present, operators, store, console))
                }
            }
            let next = try await record.changed(to: state, release: release, operators, signer, in: store).encoded()
            try await store.put(next, at: RecordKey(name), expecting: record.revision)
            return RolloutAnswer(await counted(try operators.rollout(next), operators, store, console))
        }
    }

    /// Returns whether the rollout already has the state. A halted rollout is not running until its controller has read the resume.
    ///
    /// - Throws: `bad-rollout-change` for the resume of a complete rollout.
    private func has(
        _ state: Rollout.State, _ rollout: Verified<Rollout>, _ store: any FleetStore
    ) async throws -> Bool {
        let name = rollout.value.name
        guard rollout.value.state == state else { return false }
        guard let stored = try await store.read(RecordKey(.progress, name.text)) else { return true }
        // After the loss of a newer version, the gateways wait for a version that is at least as new.
        guard let progress = try? OperatorKeys.progress(stored.bytes, of: rollout).value,
            progress.rolloutSerial <= rollout.value.serial
        else { return false }
        guard state == .running else { return true }
        switch progress.state {
        case .running: return true
        case .halted: return progress.rolloutSerial < rollout.value.serial
        case .complete where progress.rolloutSerial < rollout.value.serial: return true
        case .complete:
            throw FleetError(
                .badChange, "the rollout \(name) is complete: all known devices have been finished for 24 h",
                hint: "for other devices, create a new rollout: otaflash rollout create NAME --release "
                    + "\(rollout.value.release)")
        }
    }

    /// Counts the devices of the changed rollout. The change is already written, so a failure of the count is only a warning.
    private func counted(
        _ rollout: Verified<Rollout>, _ operators: OperatorKeys, _ store: any FleetStore, _ console: Console
    ) async -> RolloutSummary {
        do {
            return try await withThrowingTaskGroup(of: RolloutSummary.self) { group in
                group.addTask {
                    let devices = try await StoredDevices(store, operators)
                    devices.warn(console)
                    return try await RolloutSummary.read(rollout, devices, store, console)
                }
                group.addTask {
                    try await Task.sleep(for: Self.countTime)
                    throw StoreError(.unavailable, "the count was not complete after \(Self.countTime)")
                }
                defer { group.cancelAll() }
                for try await summary in group { return summary }
                throw CancellationError()
            }
        } catch {
            let (name, state) = (rollout.value.name, rollout.value.state)
            let cause = Failure(error, in: Invocation(command: "rollout")).message
            console.warn(
                "the rollout \(name) is \(state.rawValue); its devices could not be counted: \(cause)",
                hint: "count them: otaflash rollout status \(name)")
            return RolloutSummary(rollout.value, in: nil, progress: nil, counts: nil)
        }
    }
}

/// The command `rollout pause`.
struct RolloutPause: Command {
    static let name = "rollout pause"
    static let configuration = CommandConfiguration(
        commandName: "pause", abstract: "Pause a rollout: start no new updates.",
        discussion: """
            Example: otaflash rollout pause spring --key ops.pem

            Updates that are under way end normally. To continue the rollout, use 'otaflash rollout resume'.
            """)
    @OptionGroup var rollout: RolloutChangeOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) async throws -> RolloutAnswer { try await rollout.change(to: .paused, console) }
}

/// The command `rollout resume`.
struct RolloutResume: Command {
    static let name = "rollout resume"
    static let configuration = CommandConfiguration(
        commandName: "resume", abstract: "Continue a paused or halted rollout.",
        discussion: """
            Example: otaflash rollout resume spring --key ops.pem

            An operator pauses a rollout ('otaflash rollout pause'). The controller halts a rollout if too many devices fail \
            ('otaflash rollout create --halt'). After the resume of a halted rollout, only the devices that are finished later count for the \
            next halt. The conditions of --advance still count all devices of the stage, also the failed ones. A complete rollout cannot \
            continue: create a new rollout for other devices.
            """)
    @OptionGroup var rollout: RolloutChangeOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) async throws -> RolloutAnswer { try await rollout.change(to: .running, console) }
}

/// The command `rollout abort`.
struct RolloutAbort: Command {
    static let name = "rollout abort"
    static let configuration = CommandConfiguration(
        commandName: "abort", abstract: "End a rollout. An aborted rollout cannot continue.",
        discussion: """
            Example: otaflash rollout abort spring --key ops.pem

            No update of the rollout starts any more. An update that is under way is interrupted, unless its device has already \
            marked the new image for boot.
            """)
    @OptionGroup var rollout: RolloutChangeOptions

    @Option(
        help: ArgumentHelp(
            "Also end a rollout whose record is damaged or missing: the ID of its release.",
            discussion:
                "It is used only if the record of the rollout is missing or not valid, for example because another program has "
                + "overwritten it: abort then writes an aborted rollout with this release in its place. 'otaflash release list' "
                + "prints the IDs.",
            valueName: "id"))
    var release: String?

    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) async throws -> RolloutAnswer {
        try await rollout.change(to: .aborted, release: release.map { try ReleaseID(reading: $0) }, console)
    }
}
