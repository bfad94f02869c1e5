import OTACommands
import OTAFirmware
import OTAFleet
import OTAGateway
import OTAStore

/// A rollout in the result of a command: the plan of the operator, and the progress of the controller.
struct RolloutSummary: Encodable, Sendable {
    struct Counts: Encodable, Sendable {
        let done, running, failed, refused, waiting: Int

        init(_ counts: RolloutProgress.Counts) {
            done = counts.done
            running = counts.running
            failed = counts.failed
            refused = counts.refused
            waiting = counts.waiting
        }

        var total: Int { done + running + failed + refused + waiting }
    }

    /// The devices that count for the stages and the halt.
    struct Enrolled: Encodable, Sendable {
        let links: String
        /// The number of devices in the list.
        let listed: Int
        /// The number of devices in the list that have no state in this rollout, for example because no gateway has found them. Nil: no
        /// such device, or not known, because the last stage has not started or devices count that are not in the list.
        let uncounted: Int?

        /// - Parameter counted: the number of enrolled devices that have a state; nil before the last stage.
        init(_ enrolment: Enrolment, _ list: EnrolledDevices, counted: Int?) {
            (links, listed) = (enrolment.links.rawValue, list.devices.count)
            let rest = enrolment.links == .all ? counted.map { list.devices.count - $0 } : nil
            uncounted = rest.flatMap { $0 > 0 ? $0 : nil }
        }

        var text: String {
            guard links == Enrolment.Links.all.rawValue else {
                return "\(Figures.count(listed, "Bluetooth device")), and all devices of other links"
            }
            let rest = uncounted.map { "; \($0) without an update: not found, held, or not selected" }
            return Figures.count(listed, "listed device") + (rest ?? "")
        }
    }

    /// A reason why the rollout has given up enrolled devices, and their number.
    struct Failure: Encodable, Sendable {
        let reason: String
        let devices: Int
    }

    let name, product, release: String
    /// `waiting` if no controller has started the rollout; otherwise `running`, `halted`, `complete`, `paused` or `aborted`.
    let state: String
    let serial: Int
    /// The current stage, from 1; 0 if no controller has started the rollout.
    let stage: Int
    let stages: Int
    /// Nil if the list of the enrolled devices was not read.
    let enrolled: Enrolled?
    /// The enrolled devices. Nil if the devices could not be counted.
    let devices: Counts?
    /// The devices that are not enrolled: they get the rollout in its last stage, and have no effect on it. Nil without such devices.
    let notEnrolled: Counts?
    /// From the most frequent reason; nil without a device that was given up.
    let failures: [Failure]?
    /// The number of devices that the started stages admit, but whose last job is from a newer rollout; nil if there are none. They are not
    /// in `devices`.
    let moved: Int?
    let created, expires: String
    /// True if the last stage is in force, at least one known device is finished, and no known device is running or waiting.
    let isFinished: Bool

    /// - Parameters:
    ///   - progress: the progress that a controller of the rollout signed; nil: no controller has started the rollout.
    ///   - list: the list of the enrolled devices; nil: not read.
    ///   - counts: the enrolled devices of the stages until now; nil: the devices could not be counted.
    ///   - notEnrolled: the devices of all stages that are not enrolled.
    ///   - failures: the reasons of the enrolled devices that were given up.
    ///   - moved: the devices of these stages whose last job is from a newer rollout.
    init(
        _ rollout: Rollout, in list: EnrolledDevices?, progress: RolloutProgress?, counts: RolloutProgress.Counts?,
        notEnrolled: RolloutProgress.Counts = .init(), failures: [FailureCount] = [], moved: Int = 0
    ) {
        name = rollout.name.text
        product = rollout.selection.product.text
        release = rollout.release.text
        serial = rollout.serial
        let last = rollout.stages.count
        stages = last
        stage = progress.map { min($0.stage, last - 1) + 1 } ?? 0
        devices = counts.map { Counts($0) }
        let counted = stage == last ? counts.map { Counts($0).total + moved } : nil
        enrolled = list.map { Enrolled(rollout.enrolment, $0, counted: counted) }
        self.notEnrolled = notEnrolled == .init() ? nil : Counts(notEnrolled)
        self.failures =
            failures.isEmpty ? nil : failures.map { Failure(reason: $0.reason.text, devices: $0.devices) }
        self.moved = moved == 0 ? nil : moved
        created = rollout.created.description
        expires = rollout.expires.description
        // The operator's state is newer than the progress until the controller has read it.
        let isCurrent = (progress?.rolloutSerial ?? 0) >= rollout.serial
        state =
            switch (rollout.state, progress?.state) {
            case (.aborted, _): "aborted"
            case (_, .complete): "complete"
            case (_, .halted) where isCurrent: "halted"
            case (.paused, _): "paused"
            case (.running, nil): "waiting"
            case (.running, _): "running"
            }
        isFinished = stage == last && counts.map { $0.ended > 0 && $0.unfinished == 0 } == true
    }

    private enum CodingKeys: String, CodingKey {
        case name, product, release, state, serial, stage, stages, enrolled, devices, failures, moved, created, expires
        case notEnrolled = "not_enrolled"
        case isFinished = "finished"
    }

    var text: String {
        guard let devices else { return "\(state), progress unknown" }
        guard state == "running" else { return state }
        if isFinished { return "all known devices are finished" }
        return moved != nil && devices.total == 0 ? "all known devices are in newer rollouts" : state
    }

    /// The reasons and numbers of `failures`, such as `rolled-back 2, link-lost 1`.
    var failureText: String? { failures.map { $0.map { "\($0.reason) \($0.devices)" }.joined(separator: ", ") } }

    /// The titles and values that a list and the status of one rollout show.
    var cells: [(String, String)] {
        [
            ("rollout", name), ("state", text), ("stage", devices == nil ? "-" : "\(stage) of \(stages)"),
            ("done", devices.map { "\($0.done) of \($0.total)" } ?? "-"),
            ("failed", devices.map { "\($0.failed)" } ?? "-"), ("product", product),
            ("release", release),
        ]
    }
}

extension RolloutSummary {
    /// Reads the progress of a rollout, and counts its devices.
    ///
    /// - Throws: `FleetError` if the progress of a rollout that is not aborted is not signed by a controller of the rollout; `StoreError`.
    static func read(
        _ rollout: Verified<Rollout>, _ devices: StoredDevices, _ store: some FleetStore, _ console: Console
    ) async throws -> RolloutSummary {
        let stored = try await store.read(RecordKey(.progress, rollout.value.name.text))
        let progress: Verified<RolloutProgress>?
        do throws(FleetError) {
            progress =
                if let stored {
                    try naming(stored) { () throws(FleetError) in try OperatorKeys.progress(stored.bytes, of: rollout) }
                } else { nil }
        } catch {
            // An abort in place of a damaged record does not name the controllers of the rollout.
            guard rollout.value.state == .aborted else { throw error }
            console.warn(
                "the rollout \(rollout.value.name) is aborted; its devices could not be counted: \(error.context)",
                hint: "list the devices: otaflash fleet devices")
            return RolloutSummary(rollout.value, in: nil, progress: nil, counts: nil)
        }
        let list = try await EnrolledDevices(of: rollout.value, from: store)
        guard let progress = progress?.value else {
            return RolloutSummary(rollout.value, in: list, progress: nil, counts: .init())
        }
        let totals = devices.totals(of: rollout.value, in: list, stage: progress.stage)
        return RolloutSummary(
            rollout.value, in: list, progress: progress, counts: totals.all, notEnrolled: totals.notEnrolled,
            failures: devices.failures(of: rollout.value, in: list),
            moved: devices.moved(from: rollout.value, in: list, stage: progress.stage))
    }

    /// Returns the rollouts that an operator signed, in the order of their names. For each other rollout in the store, it prints a warning.
    static func all(
        _ operators: OperatorKeys, _ devices: StoredDevices, _ store: some FleetStore, _ console: Console
    ) async throws -> [(rollout: Rollout, summary: RolloutSummary)] {
        var rollouts: [(Rollout, RolloutSummary)] = []
        for record in try await store.records(in: .rollouts).sorted(by: { $0.key.name < $1.key.name }) {
            guard let name = RolloutName(record.key.name.description) else { continue }
            do {
                let rollout = try await store.rollout(name, operators)
                rollouts.append((rollout.value, try await read(rollout, devices, store, console)))
            } catch let error as FleetError {
                console.warn("the rollout \(name) is ignored: \(error.context)", hint: error.failure.hint)
            }
        }
        return rollouts
    }
}

/// The result of a command for one rollout.
struct RolloutAnswer: CommandAnswer {
    let rollout: RolloutSummary
    var failure: Failure?

    private enum CodingKeys: CodingKey { case rollout }

    init(_ rollout: RolloutSummary, failure: Failure? = nil) {
        self.rollout = rollout
        self.failure = failure
    }

    var lines: [TerminalLine] {
        var cells = rollout.cells
        if let devices = rollout.devices {
            cells += [
                ("running", "\(devices.running)"), ("waiting", "\(devices.waiting)"), ("refused", "\(devices.refused)"),
            ]
        }
        if let enrolled = rollout.enrolled { cells.append(("enrolled", enrolled.text)) }
        if let others = rollout.notEnrolled {
            let count = "\(others.total): \(others.done) done, \(others.failed + others.refused) failed or refused"
            cells.append(("not enrolled", "\(count); updated last, only reported"))
        }
        if let reasons = rollout.failureText { cells.append(("given up because of", reasons)) }
        if let moved = rollout.moved { cells.append(("in newer rollouts", "\(moved)")) }
        return TextTable.pairs(cells + [("expires", rollout.expires)])
    }
}
