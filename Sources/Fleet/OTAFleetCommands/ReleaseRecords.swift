import ArgumentParser
import OTACommands
import OTAFirmware
import OTAFleet
import OTAGateway
import OTAStore

/// A release in the result of a command.
struct ReleaseSummary: Encodable, Sendable {
    let id, product, version, state: String
    let counter: UInt32
    /// The size of the bundle, in bytes.
    let size: Int
    let manifestSha256, bundleSha256: String
    /// The rollouts of the release that are not aborted, in the order of their names.
    let rollouts: [String]

    init(_ release: FleetRelease, rollouts: [Rollout]) {
        id = release.id.text
        product = release.product.text
        version = release.version.text
        state = release.state.rawValue
        counter = release.securityCounter
        size = release.size
        manifestSha256 = release.manifestDigest.description
        bundleSha256 = release.bundleDigest.description
        self.rollouts = rollouts.filter { $0.release == release.id && $0.state != .aborted }.map(\.name.text)
    }

    /// The titles and values that a list and the view of one release show.
    var cells: [(String, String)] {
        [
            ("release", id), ("product", product), ("version", version), ("counter", "\(counter)"), ("state", state),
            ("rollouts", rollouts.isEmpty ? "-" : rollouts.joined(separator: ", ")),
        ]
    }
}

extension OperatorKeys {
    /// Verifies the stored record of a release.
    ///
    /// - Throws: `FleetError` if the release is not signed by an operator, or if the record is not this release.
    func release(_ stored: StoredRecord, _ id: ReleaseID) throws(FleetError) -> Verified<FleetRelease> {
        let publish = "publish the release again: otaflash release publish FILE.otaf --key KEY.pem"
        let release: Verified<FleetRelease>
        do { release = try self.release(stored.bytes) } catch {
            guard error.code == .malformed || error.code == .tooLarge else { throw error.naming(stored) }
            throw FleetError(error.code, error.context, hint: publish).naming(stored)
        }
        guard release.value.id == id else {
            throw FleetError(.malformed, "it contains the release \(release.value.id)", hint: publish).naming(stored)
        }
        return release
    }
}

extension FleetStore {
    /// Reads a release.
    ///
    /// - Throws: `no-such-release`; `FleetError` if the release is not signed by an operator; `StoreError`.
    func release(_ id: ReleaseID, _ operators: OperatorKeys) async throws -> (Verified<FleetRelease>, Revision) {
        guard let stored = try await read(RecordKey(id)) else {
            throw Failure(
                "no-such-release", .noInput, "the store has no release \(id)",
                hint: "publish it: otaflash release publish FILE.otaf --key KEY.pem")
        }
        return (try operators.release(stored, id), stored.revision)
    }

    /// Returns the rollouts that an operator signed, in the order of their names. A record that is not one is ignored: `rollout list`
    /// reports it.
    func rollouts(_ operators: OperatorKeys) async throws -> [Rollout] {
        try await records(in: .rollouts).compactMap { stored in
            guard let rollout = try? operators.rollout(stored.bytes).value,
                rollout.name.text == stored.key.name.description
            else { return nil }
            return rollout
        }.sorted { $0.name < $1.name }
    }
}

extension ReleaseID {
    /// The help of an argument or option.
    static let rule =
        "The ID of the release: 16 hex digits, which 'otaflash release publish' and 'otaflash release list' print."

    /// Parses the argument of a command.
    init(reading text: String) throws(Failure) {
        guard let id = ReleaseID(text) else {
            throw .usage("'\(text)' is not the ID of a release", hint: "list the releases: otaflash release list")
        }
        self = id
    }
}

/// The command `release list`, which lists the releases in the store.
struct ReleaseList: Command {
    static let name = "release list"
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the releases.",
        discussion: """
            Example: otaflash release list --operators ops.pub.pem

            list shows the releases that an operator has signed. For each other release in the store, it prints a warning.
            """)

    @OptionGroup var operators: OperatorOptions
    @OptionGroup var store: StoreOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) async throws -> ReleaseListAnswer {
        let operators = try operators.keys(console)
        return try await store.withStore(for: console) { store in
            let rollouts = try await store.rollouts(operators)
            var releases: [ReleaseSummary] = []
            for stored in try await store.records(in: .releases).sorted(by: { $0.key.name < $1.key.name }) {
                guard let id = ReleaseID(stored.key.name.description) else { continue }
                do {
                    releases.append(ReleaseSummary(try await store.release(id, operators).0.value, rollouts: rollouts))
                } catch let error as FleetError {
                    console.warn("the release \(id) is ignored: \(error.context)", hint: error.failure.hint)
                }
            }
            return ReleaseListAnswer(releases: releases)
        }
    }
}

/// The result of `release list`.
struct ReleaseListAnswer: TableAnswer {
    let releases: [ReleaseSummary]

    func text(fitting width: Int?) -> [TerminalLine] {
        guard !releases.isEmpty else { return ["no releases"] }
        return TextTable(releases.map(\.cells), identifiers: ["release", "rollouts"]).lines(fitting: width)
    }
}

/// The command `release view`, which shows one release.
struct ReleaseView: Command {
    static let name = "release view"
    static let configuration = CommandConfiguration(
        commandName: "view", abstract: "Show a release: its product, version, digests and rollouts.",
        discussion: "Example: otaflash release view 0f1e2d3c4b5a6978 --operators ops.pub.pem")

    @Argument(help: ArgumentHelp(ReleaseID.rule))
    var id: String

    @OptionGroup var operators: OperatorOptions
    @OptionGroup var store: StoreOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) async throws -> ReleaseViewAnswer {
        let id = try ReleaseID(reading: id)
        let operators = try operators.keys(console)
        return try await store.withStore(for: console) { store in
            let (release, _) = try await store.release(id, operators)
            return ReleaseViewAnswer(
                release: ReleaseSummary(release.value, rollouts: try await store.rollouts(operators)))
        }
    }
}

/// The result of a command for one release.
struct ReleaseViewAnswer: CommandAnswer {
    let release: ReleaseSummary

    var lines: [TerminalLine] {
        TextTable.pairs(
            release.cells + [
                ("size", "\(release.size) bytes"), ("manifest SHA-256", release.manifestSha256),
                ("bundle SHA-256", release.bundleSha256),
            ])
    }
}

/// The command `release withdraw`, which ends the use of a release.
struct ReleaseWithdraw: Command {
    static let name = "release withdraw"
    static let configuration = CommandConfiguration(
        commandName: "withdraw", abstract: "Withdraw a release: no gateway starts an update with it any more.",
        discussion: """
            Example: otaflash release withdraw 0f1e2d3c4b5a6978 --key ops.pem

            A withdrawn release cannot be published again. Updates that are under way end normally, and an image on trial is confirmed. \
            The rollouts of the release stay, but update no more devices. To end them, use 'otaflash rollout abort', which also \
            interrupts updates that are under way.
            """)

    @Argument(help: ArgumentHelp(ReleaseID.rule))
    var id: String

    @OptionGroup var signing: SigningOptions
    @OptionGroup var store: StoreOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) async throws -> ReleaseViewAnswer {
        let id = try ReleaseID(reading: id)
        let (signer, operators) = try signing.keys(console)
        return try await store.withStore(for: console) { store in
            let (release, revision) = try await store.release(id, operators)
            let rollouts = try await store.rollouts(operators)
            // A release that is already withdrawn needs no new version.
            if release.value.state == .published {
                let record = try operators.withdraw(release, with: signer)
                try await store.put(record.encoded(), at: RecordKey(id), expecting: revision)
            }
            let withdrawn = ReleaseSummary(try await store.release(id, operators).0.value, rollouts: rollouts)
            for rollout in withdrawn.rollouts {
                console.warn(
                    "the rollout \(rollout) updates no more devices, because its release is withdrawn",
                    hint: "end it: otaflash rollout abort \(rollout) --key KEY.pem")
            }
            return ReleaseViewAnswer(release: withdrawn)
        }
    }
}
