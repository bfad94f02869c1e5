internal import DescriptorIO
internal import OTAFirmware
internal import OTAFleet
internal import OTASigning
internal import OTAStore

/// The loop of a ``Controller``. It receives messages, and runs the steps of the stage machines. Child tasks sign the progress and access
/// the store. Only this loop has mutable state.
struct ControllerLoop<C: Clock> where C.Duration == Duration {
    private let controller: Controller<C>
    private var mailbox: Mailbox<ControllerMessage, C>
    private var assignments: AssignmentList
    private var saving = MemorySaving()
    private var enrolments = EnrolmentReads()
    private var leadership: Leadership
    private var wasLeader = false
    /// The machines of the rollouts, if this controller leads. A new leader starts with new machines, because it has not measured the times
    /// of the current stages.
    private var machines: [RolloutName: StageMachine] = [:]
    /// The records of the devices, if this controller leads. The other controllers do not need them.
    private var devices: [DeviceID: (record: DeviceRecord, revision: Revision)] = [:]
    /// The devices whose record cannot be read. Only the revision is kept: a gateway can write many such records.
    private var damaged: [DeviceID: Revision] = [:]
    /// The devices whose record could not be read, and that were reported: at most `mostReports` and one more.
    private var reported: Set<DeviceID> = []
    /// The number of damaged records that are reported one by one.
    private static var mostReports: Int { 3 }
    /// Ends the watch of the devices; nil if this controller does not lead.
    private var devicesWatch: AsyncStream<Void>.Continuation?
    private var revisions: [RolloutName: Revision] = [:]
    /// The stored progress of rollouts whose own record has not arrived yet.
    private var earlyProgress: [RolloutName: StoredRecord] = [:]
    /// The rollouts whose progress is being written or read.
    private var busy: Set<RolloutName> = []
    /// The buckets that were read completely. The machines run only after all three buckets (rollouts, progress, devices) were read.
    /// Without this rule, the results of only some devices could look like a successful stage.
    private var known: Set<Bucket> = []
    /// True after the rollouts were read completely for the first time.
    private var hasRollouts = false
    /// The time of the next step of the machines, which computes the counts of all devices again.
    private var nextStep = Duration.zero
    private var lastRefusal: String?

    init(_ controller: Controller<C>, _ mailbox: Mailbox<ControllerMessage, C>) {
        self.controller = controller
        self.mailbox = mailbox
        assignments = AssignmentList(operators: controller.operators, memory: controller.memory)
        leadership = Leadership(
            controller: controller.signer.publicKey.id, instance: controller.instance,
            earlierInstances: controller.earlierInstances)
    }

    private var post: AsyncStream<ControllerMessage>.Continuation { mailbox.post }
    /// The time since the start of the loop, and the wall clock.
    private var moment: Moment { Moment(mailbox.now, wall: controller.wall()) }

    mutating func run(in group: inout DiscardingTaskGroup) async {
        serve(&group)
        for await message in mailbox.messages {
            handle(message, &group)
            serve(&group)
        }
    }

    private mutating func handle(_ message: ControllerMessage, _ group: inout DiscardingTaskGroup) {
        let moment = moment
        let now = moment.now
        switch message {
        // The watch of the devices can still post messages after its end.
        case .store(.complete(.devices, _)) where devicesWatch == nil: break
        case .store(.changed(let record)) where record.key.bucket == .devices && devicesWatch == nil: break
        case .store(.complete(let bucket, let records)):
            forget(bucket)
            if bucket == .rollouts {
                assignments.suspend(except: Set(records.compactMap { RolloutName($0.key.name.description) }))
            }
            for record in records { accept(record) }
            known.insert(bucket)
            if bucket == .rollouts { hasRollouts = true }
        case .store(.changed(let record)): accept(record)
        case .store(.failed(let bucket, let error)):
            known.remove(bucket)
            controller.report(.storeFailed(error))
        case .woken: break
        case .readLeader(.success(let stored)):
            see(leader: stored) { $0.readBack($1, revision: $2, at: now) }
        case .readLeader(.failure(let error)):
            controller.report(.storeFailed(error))
            leadership.readFailed(at: now)
        case .wroteLeader(let result, let error):
            if let error { controller.report(.storeFailed(error)) }
            leadership.wrote(result, at: now)
        case .wrote(let progress, let signed, .written(let revision)):
            busy.remove(progress.rollout)
            machines[progress.rollout]?.wrote(progress, at: moment)
            adopt(signed, of: progress.rollout, revision)
            controller.report(.wrote(progress))
        case .wrote(let progress, _, .conflict), .wrote(let progress, _, .unknown):
            readBack(progress.rollout, after: .zero, &group)
        case .notWritten(let rollout, let error):
            if let error = error as? StoreError { controller.report(.storeFailed(error)) }
            if let error = error as? FleetError { refused(error) }
            readBack(rollout, after: .seconds(5), &group)
        case .readProgress(let rollout, .success(let stored)):
            busy.remove(rollout)
            // The answer counts even if its revision is lower than the last known revision, because the store can lose its newest records.
            revisions[rollout] = stored?.revision
            if let stored { accept(stored) }
        case .readProgress(let rollout, .failure(let error)):
            controller.report(.storeFailed(error))
            readBack(rollout, after: .seconds(5), &group)
        case .enrolment(let list, let result):
            enrolments.end(list, isRead: (try? result.get()) != nil, at: now)
            switch result {
            case .success(let devices): assignments.add(devices, digest: list)
            case .failure(let error as StoreError): controller.report(.storeFailed(error))
            case .failure(let error): if let error = error as? FleetError { refused(error) }
            }
        case .saved(let error):
            saving.end(error == nil, at: now)
            if let error { controller.report(.notSaved("\(error)")) }
        }
    }

    // MARK: - Time

    /// Performs all work that is due now, and starts a timer for the next deadline.
    private mutating func serve(_ group: inout DiscardingTaskGroup) {
        let now = mailbox.now
        saving.start(assignments.memory, at: now, in: &group, save: controller.save) { [post] in post.yield(.saved($0))
        }
        enrolments.start(assignments.missingLists, at: now, from: controller.store, in: &group) { [post] in
            post.yield(.enrolment($0, $1))
        }
        if let action = leadership.tick(at: now) { perform(action, &group) }
        let leads = leadership.leads(at: now)
        if leads != wasLeader {
            wasLeader = leads
            machines = [:]
            if leads { watchDevices(&group) } else { forgetDevices() }
            controller.report(.leads(leads))
        }
        let canStep = leads && known.count == 3 && saving.isSaved
        if canStep, nextStep <= now { step(&group) }
        let times = [leadership.deadline, saving.deadline, enrolments.deadline, canStep ? nextStep : nil]
        mailbox.arm(times.compactMap { $0 }.min(), in: &group)
    }

    private mutating func watchDevices(_ group: inout DiscardingTaskGroup) {
        let (ends, end) = AsyncStream.makeStream(of: Void.self)
        devicesWatch = end
        let (watch, post) = (StoreWatch(store: controller.store, clock: controller.clock), post)
        group.addTask {
            await withDiscardingTaskGroup { group in
                group.addTask { await watch.run(.devices) { post.yield(.store($0)) } }
                for await _ in ends {}
                group.cancelAll()
            }
        }
    }

    private mutating func forgetDevices() {
        devicesWatch?.finish()
        devicesWatch = nil
        (devices, damaged) = ([:], [:])
        known.remove(.devices)
    }

    private mutating func step(_ group: inout DiscardingTaskGroup) {
        let moment = moment
        nextStep = moment.now + .seconds(2)
        let records = devices.values.map { device in
            device.record.bounded(by: assignments.job(of: device.record, at: moment.wall))
        }
        for rollout in assignments.rollouts where rollout.value.controllers.contains(controller.signer.publicKey) {
            let name = rollout.value.name
            // Without the list, this controller would not count the enrolled devices.
            guard !busy.contains(name), assignments.isCurrent(name),
                let list = assignments.enrolled(by: rollout.value)
            else { continue }
            var machine =
                machines[name]
                ?? StageMachine(rollout, progress: assignments.progress(of: name), memory: assignments.memory)
            machine.update(rollout)
            if let next = machine.step(records, damaged: damaged.keys, in: list, at: moment) {
                write(next, &group)
            }
            machines[name] = machine
            controller.report(.counted(name, machine.counts, notEnrolled: machine.notEnrolled))
        }
    }

    // MARK: - Store

    private func perform(_ action: Leadership.Action, _ group: inout DiscardingTaskGroup) {
        guard let key = RecordName("_leader").map({ RecordKey(.progress, $0) }) else { return }
        let (store, post) = (controller.store, post)
        switch action {
        case .read:
            group.addTask {
                do throws(StoreError) {
                    post.yield(.readLeader(.success(try await store.read(key))))
                } catch {
                    post.yield(.readLeader(.failure(error)))
                }
            }
        case .write(let record, let revision):
            group.addTask {
                do {
                    let outcome = try await store.write(record.encoded(), at: key, expecting: Revision(revision))
                    post.yield(.wroteLeader(DeviceMachine.WriteResult(outcome), nil))
                } catch {
                    post.yield(.wroteLeader(.unknown, error as? StoreError))
                }
            }
        }
    }

    private mutating func write(_ progress: RolloutProgress, _ group: inout DiscardingTaskGroup) {
        guard let key = RecordName(progress.rollout.text).map({ RecordKey(.progress, $0) }) else { return }
        busy.insert(progress.rollout)
        let (store, signer, post) = (controller.store, controller.signer, post)
        let revision = revisions[progress.rollout] ?? .absent
        group.addTask {
            do {
                let signed = try SignedRecord(signing: progress, with: signer)
                let outcome = try await store.write(signed.encoded(), at: key, expecting: revision)
                post.yield(.wrote(progress, signed, outcome))
            } catch {
                post.yield(.notWritten(progress.rollout, error))
            }
        }
    }

    private func readBack(_ rollout: RolloutName, after pause: Duration, _ group: inout DiscardingTaskGroup) {
        guard let key = RecordName(rollout.text).map({ RecordKey(.progress, $0) }) else { return }
        let (store, clock, post) = (controller.store, controller.clock, post)
        group.addTask {
            if pause > .zero { try? await clock.sleep(for: pause, tolerance: nil) }
            do throws(StoreError) {
                post.yield(.readProgress(rollout, .success(try await store.read(key))))
            } catch {
                post.yield(.readProgress(rollout, .failure(error)))
            }
        }
    }

    // MARK: - Records

    /// Discards what earlier records of a bucket have set, before a complete list of this bucket is accepted. The list counts even if it
    /// has lower revisions or fewer records than before, because the store can lose its newest records. A signed record stays in
    /// `assignments`.
    private mutating func forget(_ bucket: Bucket) {
        switch bucket {
        case .progress: (revisions, earlyProgress) = ([:], [:])
        case .devices: (devices, damaged) = ([:], [:])
        case .releases, .rollouts, .sightings, .gateways: break
        }
    }

    private mutating func accept(_ stored: StoredRecord) {
        let name = stored.key.name
        do throws(FleetError) {
            switch stored.key.bucket {
            case .rollouts:
                guard let rollout = RolloutName(name.description) else { return }
                if try assignments.add(rollout: stored.bytes, named: rollout) { saving.change() }
                if let early = earlyProgress.removeValue(forKey: rollout) { accept(early) }
            case .progress:
                guard let rollout = RolloutName(name.description) else {
                    let now = mailbox.now
                    return see(leader: stored) { $0.observe($1, revision: $2, at: now) }
                }
                guard assignments.rollouts.contains(where: { $0.value.name == rollout }) else {
                    // After the rollouts were read, the size of `earlyProgress` is limited, because an untrusted store must not fill the
                    // memory with unknown names.
                    guard earlyProgress.count < 64 || !hasRollouts else { return }
                    return earlyProgress[rollout] = stored
                }
                try accept(progress: stored, of: rollout)
            case .devices:
                guard let device = DeviceID(name.description),
                    stored.revision >= devices[device]?.revision ?? damaged[device] ?? .absent
                else { return }
                let record = parse(stored, of: device)
                devices[device] = record.map { ($0, stored.revision) }
                damaged[device] = record == nil ? stored.revision : nil
            case .releases, .sightings, .gateways: return
            }
        } catch {
            refused(error.naming(stored))
        }
    }

    /// Returns nil if the record cannot be read, and reports this once for each of the first devices. One report is for all others.
    private mutating func parse(_ stored: StoredRecord, of device: DeviceID) -> DeviceRecord? {
        do throws(FleetError) {
            let record = try DeviceRecord(parsing: stored.bytes)
            guard record.device == device else {
                throw FleetError(.malformed, "it is the record of the device \(record.device)")
            }
            reported.remove(device)
            return record
        } catch {
            guard reported.count <= Self.mostReports, reported.insert(device).inserted else { return nil }
            guard reported.count <= Self.mostReports else {
                controller.report(
                    .refused(
                        FleetError(
                            error.code,
                            "the records of more than \(Self.mostReports) devices cannot be read, so these devices count as waiting",
                            hint: "count them: otaflash fleet devices; remove the records: otaflash fleet clean")))
                return nil
            }
            let hint = error.code == .tooNew ? error.hint : DeviceRecord.replacementHint(device.text)
            controller.report(
                .refused(
                    FleetError(
                        error.code,
                        "the record of the device \(device) cannot be read, so the device counts as waiting: \(error.context)",
                        hint: hint)))
            return nil
        }
    }

    private mutating func accept(progress stored: StoredRecord, of rollout: RolloutName) throws(FleetError) {
        guard stored.revision >= revisions[rollout] ?? .absent else { return }
        // The controller overwrites progress that it does not accept. For this write, it needs the revision of that progress.
        revisions[rollout] = stored.revision
        if try assignments.add(progress: stored.bytes, of: rollout, at: moment) { saving.change() }
        if let progress = assignments.progress(of: rollout) { machines[rollout]?.observe(progress) }
    }

    private mutating func adopt(_ signed: SignedRecord, of rollout: RolloutName, _ revision: Revision) {
        revisions[rollout] = max(revision, revisions[rollout] ?? .absent)
        do throws(FleetError) {
            if try assignments.add(progress: signed.encoded(), of: rollout, at: moment) { saving.change() }
        } catch {
            refused(error)
        }
    }

    /// Passes the record of the leader to `leadership`. A damaged record becomes nil. If a damaged record stays unchanged for 45 s, this
    /// controller can take the lease. This method does not pass a record of a newer otaflash, and plans another read.
    private mutating func see(
        leader stored: StoredRecord?, _ event: (inout Leadership, LeaderRecord?, UInt64) -> Void
    ) {
        var record: LeaderRecord?
        do throws(FleetError) {
            record = try stored.map { stored throws(FleetError) in try LeaderRecord(parsing: stored.bytes) }
        } catch {
            refused(stored.map(error.naming) ?? error)
            if error.code == .tooNew { return leadership.readFailed(at: mailbox.now) }
        }
        event(&leadership, record, stored?.revision.number ?? 0)
    }

    private mutating func refused(_ error: FleetError) {
        guard lastRefusal != error.context else { return }
        lastRefusal = error.context
        controller.report(.refused(error))
    }
}
