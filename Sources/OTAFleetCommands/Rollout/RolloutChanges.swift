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

    /// Signs the next version of the rollout, and writes it to the store.
    ///
    /// - Throws: `bad-rollout-change`, also for a pause or a resume of a complete rollout, which has nothing to continue; the errors of
    ///   ``RolloutSummary/read(_:_:_:_:records:)``.
    func change(to state: Rollout.State, _ console: Console) async throws -> RolloutAnswer {
        let name = try RolloutName(reading: name)
        let (signer, operators) = try signing.keys(console)
        return try await store.withStore { store in
            let (rollout, revision, summary) = try await RolloutSummary.read(name, operators, store, console)
            guard state == .aborted || summary.state != "complete" else {
                throw FleetError(
                    .badChange, "the rollout \(name) is complete: all known devices have been finished for 24 h",
                    hint:
                        "for other devices, create a new rollout: otaflash rollout create NAME --release \(summary.release)"
                )
            }
            let next = try operators.change(rollout, to: state, with: signer)
            try await store.put(next.encoded(), at: RecordKey(name), expecting: revision)
            return RolloutAnswer(try await RolloutSummary.read(name, operators, store, console).summary)
        }
    }
}

/// The command `rollout pause`.
struct RolloutPause: Command {
    static let name = "rollout pause"
    static let configuration = CommandConfiguration(
        commandName: "pause", abstract: "Pause a rollout: start no new updates.",
        discussion: """
            Updates that are under way end normally. To continue the rollout, use 'otaflash rollout resume'.

            Example: otaflash rollout pause spring --key ops.pem
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
            An operator pauses a rollout ('otaflash rollout pause'). The controller halts a rollout if too many devices fail \
            ('otaflash rollout create --halt'). After the resume of a halted rollout, only the devices that are finished later count for the \
            next halt. The conditions of --advance still count all devices of the stage, also the failed ones. A complete rollout cannot \
            continue: create a new rollout for other devices.

            Example: otaflash rollout resume spring --key ops.pem
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
            No update of the rollout starts any more. An update that is under way is interrupted, unless its device has already \
            marked the new image for boot.

            Example: otaflash rollout abort spring --key ops.pem
            """)
    @OptionGroup var rollout: RolloutChangeOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) async throws -> RolloutAnswer { try await rollout.change(to: .aborted, console) }
}
