internal import DescriptorIO
internal import OTAFirmware
internal import OTAFleet
internal import OTASigning
internal import OTAStore

// The actions of the machines, and the answers of the store.
extension GatewayLoop {
    /// Passes an event to the machine of a device, and performs the actions that the machine returns.
    mutating func perform(
        _ device: DeviceID, _ group: inout DiscardingTaskGroup,
        _ event: (inout DeviceMachine, Moment) -> [DeviceMachine.Action]
    ) {
        guard var entry = entries[device] else { return }
        let wasBusy = entry.machine.isBusy
        let actions = event(&entry.machine, moment)
        busyCount += (entry.machine.isBusy ? 1 : 0) - (wasBusy ? 1 : 0)
        entries[device] = entry
        var isSlotFree = false
        for action in actions {
            switch action {
            case .read: read(device, &group) { .readBack(device, $0) }
            case .write(let record, let revision): write(record, expecting: revision, &group)
            case .push(let assignment): push(assignment, to: device, &group)
            case .interrupt: entries[device]?.interrupt?.yield()
            case .ended(let end, let stored):
                ended(device, end, stored: stored)
                isSlotFree = true
            }
        }
        if isSlotFree { considerAll(&group) } else { consider(device, &group) }
    }

    /// Reads the record of a device, and posts the result.
    func read(
        _ device: DeviceID, _ group: inout DiscardingTaskGroup,
        _ message: @escaping @Sendable (Result<StoredRecord?, StoreError>) -> GatewayMessage
    ) {
        guard let name = RecordName(device.text) else { return }
        let (store, post) = (gateway.store, post)
        group.addTask {
            do throws(StoreError) {
                post.yield(message(.success(try await store.read(RecordKey(.devices, name)))))
            } catch {
                post.yield(message(.failure(error)))
            }
        }
    }

    private func write(_ record: DeviceRecord, expecting revision: UInt64, _ group: inout DiscardingTaskGroup) {
        guard let name = RecordName(record.device.text) else { return }
        let (store, post) = (gateway.store, post)
        group.addTask {
            do {
                let outcome = try await store.write(
                    record.encoded(), at: RecordKey(.devices, name), expecting: Revision(revision))
                post.yield(.wrote(record.device, DeviceMachine.WriteResult(outcome), nil))
            } catch {
                // After the result `unknown`, the machine reads the record until the store answers. The machine then writes again, or
                // it ends an attempt that has no lease.
                let tooLarge = StoreError(.recordTooLarge, (error as? FleetError)?.context ?? "\(error)")
                post.yield(.wrote(record.device, .unknown, error as? StoreError ?? tooLarge))
            }
        }
    }

    private mutating func push(_ assignment: Assignment, to device: DeviceID, _ group: inout DiscardingTaskGroup) {
        guard let entry = entries[device], let bundle = entry.bundle else { return }
        let record = entry.machine.record
        guard let assignment = assignments.renewed(assignment, for: record, at: moment) else {
            let reason = assignments.isAborted(record) ? Reason.aborted : .notRunning
            return perform(device, &group) { $0.end(.retry(reason), at: $1) }
        }
        let (interrupts, interrupt) = AsyncStream.makeStream(of: Void.self)
        let attempt = record.attempt
        entries[device]?.interrupt = interrupt
        entries[device]?.attempt = (assignment.rollout.value.name, attempt)
        if !device.isBluetooth { awaitAnswer(of: device, until: mailbox.now + .seconds(10)) }
        gateway.report(.pushing(device, assignment.rollout.value.name, attempt: attempt))
        let (devices, post) = (gateway.devices, post)
        // The version in the record can be old, for example after an update by hand. So the push compares the version of the device.
        let refusesDowngrade = assignment.rollout.value.selection.newest != nil
        group.addTask {
            let end = await devices.push(
                bundle, to: device, onlyConfirms: assignment.onlyConfirms, refusesDowngrade: refusesDowngrade,
                interrupts: interrupts
            ) { post.yield(.step(device, $0)) }
            post.yield(.pushed(device, end))
        }
    }

    /// Interrupts the push to a device if its rollout is aborted. The operator may have aborted the rollout before the push has shown that
    /// the device is not on trial any more.
    mutating func interruptIfAborted(_ device: DeviceID, _ group: inout DiscardingTaskGroup) {
        guard let machine = entries[device]?.machine,
            assignments.mustInterrupt(machine.record, isOnTrial: machine.isOnTrial)
        else { return }
        perform(device, &group) { $0.stop(.aborted, at: $1) }
    }

    private mutating func ended(_ device: DeviceID, _ end: PushEnd?, stored: Bool) {
        guard let entry = entries[device] else { return }
        if let end {
            gateway.report(.ended(device, end, stored: stored))
            if let attempt = entry.attempt {
                outbox.add(
                    stored ? end.kind : Reason.leaseLost.text, rollout: attempt.rollout, device: device,
                    attempt: attempt.number,
                    text: assignments.isEnrolled(device, in: attempt.rollout) ? nil : "the device is not enrolled",
                    at: gateway.wall())
            }
        }
        entries[device]?.bundle = nil
        entries[device]?.answerTime = nil
        entries[device]?.attempt = nil
        entries[device]?.interrupt = nil
    }

    // MARK: - Records of devices

    /// Creates the machine of a device that is not heard yet.
    mutating func know(_ device: DeviceID) {
        if entries[device] == nil { entries[device] = Entry(machine: gateway.machine(for: device), isHeard: false) }
    }

    /// Handles a record that the loop has read: at first, and after the store has lost records.
    mutating func received(
        _ result: Result<StoredRecord?, StoreError>, of device: DeviceID, _ group: inout DiscardingTaskGroup
    ) {
        do {
            let stored = try result.get()
            let record = try stored.map { try parse($0, device) }
            let afterLoss = entries[device]?.hasLostRecord ?? false
            entries[device]?.hasLostRecord = false
            perform(device, &group) {
                $0.observe(record, revision: stored?.revision.number ?? 0, afterLoss: afterLoss, at: $1)
            }
        } catch {
            report(error)
            if entries[device]?.machine.isBusy == false { readAgain(device, at: mailbox.now + .seconds(5)) }
        }
    }

    /// Handles the answer to a read that the machine of the device has requested. Only such an answer is newer than the machine's last
    /// write.
    mutating func receivedBack(
        _ result: Result<StoredRecord?, StoreError>, of device: DeviceID, _ group: inout DiscardingTaskGroup
    ) {
        do {
            let stored = try result.get()
            let record = try stored.map { try parse($0, device) }
            perform(device, &group) { $0.readBack(record, revision: stored?.revision.number ?? 0, at: $1) }
            interruptIfAborted(device, &group)
        } catch {
            report(error)
            guard error is FleetError || (error as? StoreError)?.code == .corrupt else {
                return perform(device, &group) { machine, moment in
                    machine.readFailed(at: moment)
                    return []
                }
            }
            entries[device]?.blocked = mailbox.now + .seconds(60)
            perform(device, &group) { $0.readDamaged(at: $1) }
        }
    }

    mutating func report(_ error: any Error) {
        if let error = error as? StoreError { failed(error) }
        if let error = error as? FleetError { refused(error) }
    }

    private mutating func observe(_ stored: StoredRecord, _ group: inout DiscardingTaskGroup) {
        guard let device = DeviceID(stored.key.name.description), entries[device] != nil else { return }
        do throws(FleetError) {
            let record = try parse(stored, device)
            perform(device, &group) { $0.observe(record, revision: stored.revision.number, at: $1) }
        } catch {
            refused(error)
        }
    }

    private func parse(_ stored: StoredRecord, _ device: DeviceID) throws(FleetError) -> DeviceRecord {
        try naming(stored) { () throws(FleetError) in
            let record = try DeviceRecord(parsing: stored.bytes)
            guard record.device == device else {
                throw FleetError(.malformed, "the record of the device \(record.device) is stored as \(device)")
            }
            return record
        }
    }

    // MARK: - Signed records

    mutating func watched(_ message: WatchMessage, _ group: inout DiscardingTaskGroup) {
        switch message {
        case .failed(let bucket, let error):
            failed(error)
            // The watch of another bucket can find a little later that the rollout or the hold of a device is lost, too.
            if error.code == .recordsLost { lossEnd = mailbox.now + .seconds(15) }
            // The next changes can have lower revisions than the known records, which the machines of the devices ignore.
            if bucket == .devices, error.code == .recordsLost {
                for device in entries.keys.sorted() {
                    entries[device]?.hasLostRecord = true
                    readAgain(device, at: mailbox.now)
                }
            }
        case .changed(let record):
            guard record.key.bucket != .devices else { return observe(record, &group) }
            accept(record)
            reviewAssignments(&group)
        case .complete(let bucket, let records):
            if bucket == .rollouts {
                assignments.suspend(except: Set(records.compactMap { RolloutName($0.key.name.description) }))
            }
            for record in records { accept(record) }
            known.insert(bucket)
            reviewAssignments(&group)
        }
    }

    private mutating func accept(_ record: StoredRecord) {
        let name = record.key.name.description
        // Nil for a name that starts with `_`, because such a record does not belong to a rollout.
        let rollout = RolloutName(name)
        do throws(FleetError) {
            var isChanged = false
            switch record.key.bucket {
            case .releases:
                guard let id = ReleaseID(name) else { return }
                isChanged = try assignments.add(release: record.bytes, named: id)
            case .rollouts:
                guard let rollout else { return }
                isChanged = try assignments.add(rollout: record.bytes, named: rollout)
                if let early = earlyProgress.removeValue(forKey: rollout) { accept(early) }
            case .progress:
                guard let rollout else { return }
                guard assignments.rollouts.contains(where: { $0.value.name == rollout }) else {
                    // The size of `earlyProgress` is limited, because an untrusted store must not fill the memory with unknown names.
                    guard earlyProgress.count < 64 else { return }
                    return earlyProgress[rollout] = record
                }
                isChanged = try assignments.add(progress: record.bytes, of: rollout, at: moment)
            case .devices, .sightings, .gateways: return
            }
            if isChanged { saving.change() }
        } catch {
            let error = error.naming(record)
            refused(error)
            if let rollout {
                outbox.add(
                    error.code.rawValue, rollout: rollout, record: record.bytes, text: error.context, at: gateway.wall()
                )
            }
        }
    }

    private mutating func reviewAssignments(_ group: inout DiscardingTaskGroup) {
        for device in entries.keys.sorted() { interruptIfAborted(device, &group) }
        cache.keep(Set(assignments.rollouts.map(\.value.release)))
        considerAll(&group)
    }

    // MARK: - Bundles

    mutating func load(_ release: Verified<FleetRelease>, _ group: inout DiscardingTaskGroup) {
        guard cache.mustLoad(release, at: mailbox.now) else { return }
        let (store, verifier, post) = (gateway.store, gateway.settings.verifier, post)
        group.addTask {
            do throws(BundleCache.Failure) {
                post.yield(.bundle(release, .success(try await BundleCache.load(release.value, from: store, verifier))))
            } catch {
                post.yield(.bundle(release, .failure(error)))
            }
        }
    }

    mutating func loaded(
        _ result: Result<VerifiedBundle, BundleCache.Failure>, of release: Verified<FleetRelease>,
        _ group: inout DiscardingTaskGroup
    ) {
        cache.record(result, of: release, at: mailbox.now)
        switch result {
        case .success: break
        case .failure(.absent(let error)): failed(error)
        case .failure(.refused(let error)):
            assignments.refuse(release)
            refused(error)
            for rollout in assignments.rollouts where rollout.value.release == release.value.id {
                outbox.add(
                    error.code.rawValue, rollout: rollout.value.name, text: error.context, at: gateway.wall())
            }
        }
        considerAll(&group)
    }

    // MARK: - Errors

    /// Reports an error of the store.
    ///
    /// - Parameter device: the device whose record was not written; nil if the error is from another operation. If the error is not
    ///   `unavailable`, this device gets no attempt for 60 s.
    mutating func failed(_ error: StoreError, _ device: DeviceID? = nil) {
        lastError = error.context
        gateway.report(.storeFailed(error))
        if let device, error.code != .unavailable { entries[device]?.blocked = mailbox.now + .seconds(60) }
    }

    /// The refusal of the record of a gateway that another process has written under the name of this gateway.
    var sameName: FleetError {
        let name = gateway.settings.holder.gateway
        return FleetError(
            .staleRecord, "another process uses the name \(name) of this gateway",
            hint: "give each gateway a name of its own: otaflash gateway run --name NAME")
    }

    /// Reports that a record, a bundle or a push was refused. The same refusal is not reported twice in a row.
    mutating func refused(_ error: FleetError) {
        guard lastRefusal != error.context else { return }
        lastRefusal = error.context
        lastError = error.context
        gateway.report(.refused(error))
    }
}

extension DeviceMachine.WriteResult {
    init(_ outcome: WriteOutcome) {
        switch outcome {
        case .written(let revision): self = .written(revision: revision.number)
        case .conflict: self = .conflict
        case .unknown: self = .unknown
        }
    }
}

extension PushEnd {
    /// The kind of the event: `updated`, or the reason.
    fileprivate var kind: String {
        switch self {
        case .updated: "updated"
        case .retry(let reason), .refused(let reason), .failed(let reason): reason.text
        }
    }
}
