internal import DescriptorIO
internal import OTAFirmware
internal import OTAFleet
internal import OTASigning
internal import OTAStore

/// The loop of a ``Gateway``. It receives messages, passes them to the machines of the devices, and performs the actions of the machines in
/// child tasks. Only this loop has mutable state.
struct GatewayLoop<C: Clock, Devices: GatewayDevices> where C.Duration == Duration {
    /// A device that the gateway has heard, or whose record it has read in order to hear it.
    struct Entry {
        var machine: DeviceMachine
        var rssi: Int?
        var isHeard = true
        /// The bundle of the current attempt, the rollout and the number of the attempt, and the stream that interrupts its push. All are
        /// nil if no attempt is under way. The last two are also nil until the push of the attempt starts.
        var bundle: VerifiedBundle?
        var attempt: (rollout: RolloutName, number: Int)?
        var interrupt: AsyncStream<Void>.Continuation?
        /// True if the store may have lost the record, so that an older revision counts.
        var hasLostRecord = false
        /// The time at which the machine must be called again, and the time at which a failed read of the record is repeated. Each is nil
        /// if no such call or read is planned.
        var deadline, readTime: Duration?
        /// If the device has not answered to the push by this time, the push ends in favour of a device that waits for a place. Nil if no
        /// push is under way, after the first answer, and for a device with a radio: a connection over Bluetooth can take longer.
        var answerTime: Duration?
        /// No attempt on the device starts before this time. The loop sets it when the store refuses a write of the device's record.
        var blocked = Duration.zero
    }

    let gateway: Gateway<C, Devices>
    var mailbox: Mailbox<GatewayMessage, C>
    var entries: [DeviceID: Entry] = [:]
    /// The number of attempts that are under way.
    var busyCount = 0
    /// No deadline of an entry is earlier than this time; nil if no entry has a deadline. A gateway with many devices receives many
    /// messages about other devices, so it must not search all entries after each message.
    private var entriesDeadline: Duration?
    var assignments: AssignmentList
    var saving = MemorySaving()
    private var enrolments = EnrolmentReads()
    var cache = BundleCache()
    var outbox: EventOutbox
    /// The buckets of signed records that were read completely. No attempt starts before all three buckets (releases, rollouts, progress)
    /// were read. Without this rule, the gateway could overlook the newest rollout for a device.
    var known: Set<Bucket> = []
    /// The time before which no attempt starts, because the store has lost records.
    var lossEnd = Duration.zero
    /// The progress of rollouts whose own record has not arrived yet.
    var earlyProgress: [RolloutName: StoredRecord] = [:]
    var lastError: String?
    var lastRefusal: String?
    private var random: any RandomNumberGenerator & Sendable
    private var presenceTime = Duration.zero
    private var hasPresence = false
    /// The number of devices in the last record of the gateway.
    private var shownDevices = 0
    private var isPresenceUnderWay = false
    private var isStopping = false
    /// The time at which a stopping gateway ends, even if the store has not acknowledged all results. Nil until the gateway stops and no
    /// push runs.
    private var stopLimit: Duration?

    init(_ gateway: Gateway<C, Devices>, _ mailbox: Mailbox<GatewayMessage, C>) {
        self.gateway = gateway
        self.mailbox = mailbox
        assignments = AssignmentList(operators: gateway.settings.operators, memory: gateway.settings.memory)
        outbox = EventOutbox(gateway.settings.holder.gateway)
        random = gateway.random
    }

    var post: AsyncStream<GatewayMessage>.Continuation { mailbox.post }
    /// The time since the start of the loop, and the wall clock.
    var moment: Moment { Moment(mailbox.now, wall: gateway.wall()) }

    mutating func run(in group: inout DiscardingTaskGroup) async {
        serve(&group)
        for await message in mailbox.messages {
            handle(message, &group)
            serve(&group)
            if isOver { return }
        }
    }

    private mutating func handle(_ message: GatewayMessage, _ group: inout DiscardingTaskGroup) {
        switch message {
        case .store(let message): watched(message, &group)
        case .sighting(let sighting): see(sighting, &group)
        case .stop: stop(&group)
        case .woken: break
        case .wrote(let device, let result, let error):
            if let error { failed(error, device) }
            perform(device, &group) { $0.wrote(result, at: $1) }
            interruptIfAborted(device, &group)
        // From now on, the machine sees each change. A late answer to the read does not replace a newer record.
        case .reading(let device): know(device)
        case .read(let device, let result): received(result, of: device, &group)
        case .readBack(let device, let result): receivedBack(result, of: device, &group)
        case .step(let device, let step):
            entries[device]?.answerTime = nil
            perform(device, &group) { $0.progress(step.phase, offset: step.offset, total: step.total, at: $1) }
            interruptIfAborted(device, &group)
        case .pushed(let device, let end): perform(device, &group) { $0.end(end, at: $1) }
        case .bundle(let release, let result): loaded(result, of: release, &group)
        case .enrolment(let list, let result):
            enrolments.end(list, isRead: (try? result.get()) != nil, at: mailbox.now)
            switch result {
            case .success(let devices):
                assignments.add(devices, digest: list)
                considerAll(&group)
            case .failure(let error): report(error)
            }
        case .saved(let error):
            saving.end(error == nil, at: mailbox.now)
            if let error { gateway.report(.notSaved("\(error)")) }
            considerAll(&group)
        case .appended(let event, let error):
            outbox.end(event, error, at: mailbox.now)
            if let error { failed(error) }
        case .present(let result):
            isPresenceUnderWay = false
            switch result {
            case .failure(let error): failed(error)
            case .success(let other):
                hasPresence = true
                if other != nil { refused(sameName) }
            }
        }
    }

    // MARK: - Time

    /// Performs all work that is due now, and starts a timer for the next deadline.
    private mutating func serve(_ group: inout DiscardingTaskGroup) {
        let now = mailbox.now
        if let time = entriesDeadline, time <= now { serveEntries(at: now, &group) }
        if let time = cache.deadline, time <= now {
            cache.forgetAbsent(at: now)
            considerAll(&group)
        }
        saving.start(assignments.memory, at: now, in: &group, save: gateway.save) { [post] in post.yield(.saved($0)) }
        enrolments.start(assignments.missingLists, at: now, from: gateway.store, in: &group) { [post] in
            post.yield(.enrolment($0, $1))
        }
        if let event = outbox.begin(at: now) {
            let (store, post) = (gateway.store, post)
            group.addTask {
                do throws(StoreError) {
                    try await store.append(event)
                    post.yield(.appended(event, nil))
                } catch {
                    post.yield(.appended(event, error))
                }
            }
        }
        if presenceTime <= now, !isPresenceUnderWay { showPresence(at: now, &group) }
        if isStopping, stopLimit == nil, !entries.values.contains(where: \.machine.isPushing) {
            stopLimit = now + .seconds(20)
        }
        arm(&group)
    }

    private mutating func serveEntries(at now: Duration, _ group: inout DiscardingTaskGroup) {
        entriesDeadline = nil
        for device in Array(entries.keys) {
            if let time = entries[device]?.readTime {
                if time <= now {
                    entries[device]?.readTime = nil
                    read(device, &group) { .read(device, $0) }
                } else {
                    note(deadline: time)
                }
            }
            if let time = entries[device]?.answerTime {
                if time <= now { checkAnswer(of: device, at: now, &group) } else { note(deadline: time) }
            }
            if let time = entries[device]?.deadline {
                if time <= now {
                    entries[device]?.deadline = nil
                    perform(device, &group) { $0.tick(at: $1) }
                } else {
                    note(deadline: time)
                }
            }
        }
    }

    /// Ends the push to a device that has not answered if another device waits for a place. Otherwise the push continues until its own end,
    /// and this method is called again.
    private mutating func checkAnswer(of device: DeviceID, at now: Duration, _ group: inout DiscardingTaskGroup) {
        entries[device]?.answerTime = nil
        guard entries[device]?.machine.isPushing == true else { return }
        if hasWaitingDevice { return perform(device, &group) { $0.stop(.noAnswer, at: $1) } }
        awaitAnswer(of: device, until: now + .seconds(5))
    }

    mutating func awaitAnswer(of device: DeviceID, until time: Duration) {
        entries[device]?.answerTime = time
        note(deadline: time)
    }

    /// True if all slots are in use, and the attempt on another device is due now or in a few seconds.
    private var hasWaitingDevice: Bool {
        let moment = moment
        return busyCount >= gateway.settings.slots && !isStopping
            && entries.values.contains { entry in
                var machine = entry.machine
                guard !machine.isBusy, entry.blocked <= moment.now else { return false }
                let assignment = assignments.assignment(for: machine.record, heard: machine.heardVersion, at: moment)
                switch machine.readiness(for: assignment, at: moment) {
                case .now: return true
                // While no slot is free, the waiting time of a gateway before a lease (`Contention`) does not start.
                case .at(let time): return time <= moment.now + .seconds(5)
                case .no: return false
                }
            }
    }

    private mutating func note(deadline: Duration) { entriesDeadline = min(entriesDeadline ?? deadline, deadline) }

    /// Plans another read of a device's record.
    mutating func readAgain(_ device: DeviceID, at time: Duration) {
        entries[device]?.readTime = time
        note(deadline: time)
    }

    private mutating func arm(_ group: inout DiscardingTaskGroup) {
        var times = [entriesDeadline, saving.deadline, outbox.deadline, cache.deadline, enrolments.deadline, stopLimit]
        if !isPresenceUnderWay { times.append(presenceTime) }
        mailbox.arm(times.compactMap { $0 }.min(), in: &group)
    }

    private mutating func showPresence(at now: Duration, _ group: inout DiscardingTaskGroup) {
        presenceTime = now + GatewayRecord.interval
        guard let name = RecordName(gateway.settings.holder.gateway.text) else { return }
        isPresenceUnderWay = true
        let record = GatewayRecord(
            holder: gateway.settings.holder, software: gateway.settings.software, slots: gateway.settings.slots,
            pushing: entries.values.count(where: \.machine.isPushing), heard: entries.values.count(where: \.isHeard),
            lastError: lastError,
            at: gateway.wall())
        shownDevices = record.heard
        let (store, post, key, hasPresence) = (gateway.store, post, RecordKey(.gateways, name), hasPresence)
        group.addTask {
            do throws(StoreError) {
                // Only people read this record. So a lost write is not repeated: the next write has newer contents.
                let stored = try await store.read(key)
                _ = try await store.write(record.encoded(), at: key, expecting: stored?.revision ?? .absent)
                // Before the first write of this process, the record can be from an earlier process.
                let writer =
                    hasPresence ? stored.flatMap { try? GatewayRecord(parsing: $0.bytes) }?.holder.instance : nil
                post.yield(.present(.success(writer == record.holder.instance ? nil : writer)))
            } catch {
                post.yield(.present(.failure(error)))
            }
        }
    }

    // MARK: - Stop

    private mutating func stop(_ group: inout DiscardingTaskGroup) {
        isStopping = true
        for device in entries.keys.sorted() { perform(device, &group) { $0.stop(.stopped, at: $1) } }
    }

    private var isOver: Bool {
        guard isStopping else { return false }
        if let stopLimit, stopLimit <= mailbox.now { return true }
        return outbox.isEmpty && !entries.values.contains(where: \.machine.isBusy)
    }

    // MARK: - Devices

    private mutating func see(_ sighting: Sighting, _ group: inout DiscardingTaskGroup) {
        switch sighting {
        case .lost(let device):
            entries[device]?.isHeard = false
            entries[device]?.machine.lose()
        case .heard(let device, let product, let version, let rssi):
            // The first record of a gateway is older than its first search. Without another record, people see no device for 30 s.
            if shownDevices == 0 { presenceTime = min(presenceTime, mailbox.now + .seconds(2)) }
            var entry = entries[device] ?? Entry(machine: gateway.machine(for: device))
            entry.rssi = rssi
            entry.isHeard = true
            let jitter = Double(UInt32.random(in: 0 ... .max, using: &random)) / Double(UInt32.max)
            entry.machine.hear(
                product: product, version: version, delay: Contention.delay(rssi: rssi, jitter: jitter))
            entries[device] = entry
            if !entry.machine.hasRead { read(device, &group) { .read(device, $0) } }
        }
        consider(sighting.device, &group)
    }

    /// Starts all attempts that are due, from the strongest to the weakest signal. An unknown signal strength counts as 0 dBm.
    mutating func considerAll(_ group: inout DiscardingTaskGroup) {
        let order = entries.map { (device: $0.key, rssi: $0.value.rssi ?? 0) }
            .sorted { ($1.rssi, $0.device) < ($0.rssi, $1.device) }
        // If all slots are in use, the end of the next attempt calls this method again.
        for (device, _) in order where busyCount < gateway.settings.slots { consider(device, &group) }
    }

    /// Starts an attempt on a device if it is due and fewer attempts than `Settings.slots` are under way.
    mutating func consider(_ device: DeviceID, _ group: inout DiscardingTaskGroup) {
        guard var entry = entries[device] else { return }
        defer { arm(device, entry.machine.deadline) }
        guard !entry.machine.isBusy, !isStopping, saving.isSaved, known.count == 3 else { return }
        let moment = moment
        let blocked = max(entry.blocked, lossEnd)
        guard blocked <= moment.now else { return arm(device, blocked) }
        var refusal: FleetError?
        let assignment = assignments.assignment(
            for: entry.machine.record, heard: entry.machine.heardVersion, at: moment
        ) {
            refusal = $0
        }
        if let refusal { refused(refusal) }
        let readiness = entry.machine.readiness(for: assignment, at: moment)
        entries[device] = entry
        if case .at(let time) = readiness { arm(device, time) }
        guard readiness == .now, busyCount < gateway.settings.slots else { return }
        if let assignment {
            guard hasPlace(for: device, of: assignment.rollout.value.name) else { return }
            guard let bundle = cache.bundle(of: assignment.release) else { return load(assignment.release, &group) }
            entries[device]?.bundle = bundle
        }
        perform(device, &group) { $0.start(assignment, at: $1) }
    }

    /// Returns whether a device may use a place that is free. The last place is only for enrolled devices, because strangers can appear in
    /// any number, and keep each place for minutes.
    private func hasPlace(for device: DeviceID, of rollout: RolloutName) -> Bool {
        guard gateway.settings.slots > 1, !assignments.isEnrolled(device, in: rollout) else { return true }
        let strangers = entries.count { device, entry in
            entry.machine.isBusy && entry.machine.record.rollout.map { !assignments.isEnrolled(device, in: $0) } == true
        }
        return strangers < gateway.settings.slots - 1
    }

    private mutating func arm(_ device: DeviceID, _ time: Duration?) {
        guard let time else { return }
        let earliest = min(entries[device]?.deadline ?? time, time)
        entries[device]?.deadline = earliest
        note(deadline: earliest)
    }
}

extension Sighting {
    fileprivate var device: DeviceID {
        switch self {
        case .heard(let device, _, _, _), .lost(let device): device
        }
    }
}
