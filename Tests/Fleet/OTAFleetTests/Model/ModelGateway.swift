import OTAFirmware
import OTAFleet

/// A gateway of a model world: a shell around the values of OTAFleet. It is killed, paused, and cut off from the store.
final class ModelGateway {
    static let slots = 3

    let name: GatewayName
    /// The devices that this gateway hears, and their signal strengths.
    let hears: [DeviceID: Int]
    private unowned let world: ModelWorld
    private(set) var instance = 0
    private(set) var isAlive = false
    /// True while the process is stopped (SIGSTOP).
    private(set) var isPaused = false
    private var deferred: [() -> Void] = []
    var isCutOff = false

    private var assignments: AssignmentList
    /// The highest serial of the rollout that this gateway has seen, in all its instances.
    private var seenSerial = 0
    /// The value of `seenSerial` when this gateway took the lease of a device.
    private(set) var serialAtStart: [DeviceID: Int] = [:]
    /// The memory of serials on the disk. It survives a kill.
    private var disk = SerialMemory()
    private var machines: [DeviceID: DeviceMachine] = [:]
    private(set) var pushes: [DeviceID: ModelPush] = [:]
    /// The time of the next tick of each machine, in ms.
    private var ticks: [DeviceID: Int] = [:]

    init(_ name: GatewayName, hears: [DeviceID: Int], in world: ModelWorld) {
        self.name = name
        self.hears = hears
        self.world = world
        assignments = AssignmentList(operators: world.fixtures.operators, memory: disk)
    }

    private var moment: Moment { world.moment }

    // MARK: - Process

    func start() {
        instance += 1
        isAlive = true
        assignments = AssignmentList(operators: world.fixtures.operators, memory: disk)
        let holder = Holder(gateway: name, instance: GatewayInstance(UInt32(instance)))
        let earlierInstances = Set((0..<UInt32(instance)).map { GatewayInstance($0) })
        for (device, rssi) in hears.sorted(by: { $0.key < $1.key }) {
            var machine = DeviceMachine(device: device, holder: holder, earlierInstances: earlierInstances)
            machine.hear(
                product: world.fixtures.product, version: SemanticVersion("1.3.0"),
                delay: Contention.delay(rssi: rssi, jitter: Double(world.random(0, 99)) / 100))
            machines[device] = machine
        }
        // A gateway does not start a push before it knows the release.
        accept { try assignments.add(release: world.release, named: world.releaseID) }
        resync()
    }

    func kill() {
        isAlive = false
        isPaused = false
        instance += 1
        (deferred, machines, pushes, ticks) = ([], [:], [:], [:])
    }

    func pause() { isPaused = true }

    func wake() {
        guard isPaused else { return }
        isPaused = false
        let waiting = deferred
        deferred = []
        for event in waiting { event() }
    }

    /// Runs an event of the instance in which it was planned. A paused process runs it after the pause.
    func run(in instance: Int, _ event: @escaping () -> Void) {
        guard instance == self.instance, isAlive else { return }
        if isPaused { deferred.append { [self] in run(in: instance, event) } } else { event() }
    }

    /// Reads everything, as after the start and after a lost connection.
    func resync() {
        accept {
            try world.store.rollout.map { try assignments.add(rollout: $0.bytes, named: world.fixtures.name) } ?? false
        }
        hearSigned()
        for device in hears.keys.sorted() {
            let found = world.store.devices[device]
            observe(device, found?.record, found?.revision ?? 0)
            // A gateway also reads the records if it believes that the store has lost some. An answer can arrive late.
            world.store.read(device, from: self) { [self] answer in
                guard let answer else { return }
                perform(device) {
                    $0.observe(answer.record, revision: answer.revision, afterLoss: true, at: world.moment)
                }
            }
        }
    }

    /// Hears the signed records. The store is not trusted: sometimes it shows a forged or an old record instead.
    func hearSigned() {
        defer { seenSerial = max(seenSerial, assignments.rollouts.first?.value.serial ?? 0) }
        for forgery in world.forgeries() {
            accept { try assignments.add(rollout: forgery, named: world.fixtures.name) }
            accept { try assignments.add(progress: forgery, of: world.fixtures.name, at: moment) }
        }
        accept {
            try world.store.rollout.map { try assignments.add(rollout: $0.bytes, named: world.fixtures.name) } ?? false
        }
        accept {
            try world.store.progress.map {
                try assignments.add(progress: $0.bytes, of: world.fixtures.name, at: moment)
            } ?? false
        }
        for device in machines.keys.sorted() {
            if let machine = machines[device], assignments.mustInterrupt(machine.record, isOnTrial: machine.isOnTrial) {
                perform(device) { $0.stop(.aborted, at: world.moment) }
            } else {
                consider(device)
            }
        }
    }

    private func accept(_ add: () throws -> Bool) { if (try? add()) == true { disk = assignments.memory } }

    // MARK: - Machines

    func observe(_ device: DeviceID, _ record: DeviceRecord?, _ revision: UInt64) {
        perform(device) { $0.observe(record, revision: revision, at: world.moment) }
    }

    /// Passes an event to the machine of a device and performs the actions.
    private func perform(_ device: DeviceID, _ event: (inout DeviceMachine) -> [DeviceMachine.Action]) {
        guard var machine = machines[device] else { return }
        let actions = event(&machine)
        machines[device] = machine
        for action in actions {
            switch action {
            case .read:
                world.store.read(device, from: self) { [self] answer in
                    perform(device) { machine in
                        if let answer {
                            return machine.readBack(answer.record, revision: answer.revision, at: world.moment)
                        }
                        machine.readFailed(at: world.moment)
                        return []
                    }
                }
            case .write(let record, let expecting):
                world.store.write(record, expecting: expecting, from: self) { [self] result in
                    perform(device) { $0.wrote(result, at: world.moment) }
                }
            case .push(let assignment): startPush(to: device, assignment)
            case .interrupt: pushes[device]?.interrupt()
            case .ended: for other in machines.keys.sorted() { consider(other) }
            }
        }
        consider(device)
    }

    /// Starts an attempt if it is time and a slot is free, and plans the next tick.
    private func consider(_ device: DeviceID) {
        guard var machine = machines[device] else { return }
        var next = machine.deadline
        if !machine.isBusy, machine.record.state != .done {
            let assignment = assignments.assignment(for: machine.record, at: moment)
            let readiness = machine.readiness(for: assignment, at: moment)
            machines[device] = machine
            switch readiness {
            case .now where machines.values.count(where: \.isBusy) < Self.slots:
                serialAtStart[device] = seenSerial
                return perform(device) { $0.start(assignment, at: world.moment) }
            case .at(let time): next = min(next ?? time, time)
            case .now, .no: break
            }
        }
        plan(device, next)
    }

    private func plan(_ device: DeviceID, _ deadline: Duration?) {
        guard let deadline else { return }
        let (seconds, attoseconds) = deadline.components
        let time = max(world.now + 1, Int(seconds) * 1000 + Int(attoseconds / 1_000_000_000_000_000) + 1)
        if let planned = ticks[device], planned > world.now, planned <= time { return }
        ticks[device] = time
        world.after(time - world.now, on: self) { [self] in
            if ticks[device] == time { ticks[device] = nil }
            perform(device) { $0.tick(at: world.moment) }
        }
    }

    // MARK: - Pushes

    private func startPush(to device: DeviceID, _ assignment: Assignment) {
        guard let target = world.devices[device], let record = machines[device]?.record else { return }
        guard let assignment = assignments.renewed(assignment, for: record, at: moment) else {
            return perform(device) { $0.end(.retry(.notRunning), at: world.moment) }
        }
        world.checkStart(of: assignment, device, on: self)
        let push = ModelPush(world.nextPush(), target, onlyConfirms: assignment.onlyConfirms, on: self, in: world)
        pushes[device] = push
        push.start()
    }

    func progress(_ push: ModelPush, _ phase: DeviceRecord.Phase, _ offset: Int) {
        perform(push.device.id) {
            $0.progress(phase, offset: offset, total: ModelDevice.chunks, at: world.moment)
        }
    }

    func ended(_ push: ModelPush, _ end: PushEnd) {
        pushes[push.device.id] = nil
        perform(push.device.id) { $0.end(end, at: world.moment) }
    }
}
