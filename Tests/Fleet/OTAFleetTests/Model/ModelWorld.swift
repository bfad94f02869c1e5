import OTAFirmware
import OTAFleet
import OTASigning
import OTAUpdate

/// A fleet in virtual time: devices, gateways, two controllers, and a store that is not trusted. A seed determines everything.
///
/// After every step, the world checks the rules of docs/decisions/0026-fleet-records.md. `failures` has the broken rules.
final class ModelWorld {
    struct Shape {
        var devices = 20
        var gateways = 4
        var imageIsBad = false
        /// The time until which faults are injected, in ms.
        var faultTime = 120_000
    }

    let fixtures: Fixtures
    let shape: Shape
    let seed: UInt64
    private(set) var now = 0
    private(set) var failures: [String] = []
    private(set) var devices: [DeviceID: ModelDevice] = [:]
    private(set) var gateways: [ModelGateway] = []
    private(set) lazy var store = ModelStore(self)
    let release: [UInt8]
    let releaseID: ReleaseID
    let parsesRecords: Bool
    private var random: SplitMix64
    private var queue = EventQueue()
    private var pushes = 0
    private var controllers: [ModelController] = []
    private var forged: [[UInt8]] = []
    /// The devices to which a push was started.
    private(set) var started: Set<DeviceID> = []
    /// The newest version of the rollout.
    private(set) var rollout: Verified<Rollout>

    init(seed: UInt64, shape: Shape = Shape(), fixtures: Fixtures) throws {
        self.seed = seed
        self.shape = shape
        self.fixtures = fixtures
        random = SplitMix64(seed: seed)
        parsesRecords = seed % 8 == 0
        let ids = (0..<shape.devices).compactMap { DeviceID("sim-\(seed)-\($0)") }
        let release = try fixtures.release()
        self.release = try SignedRecord(signing: release.value, with: fixtures.operatorKey).encoded()
        releaseID = release.value.id
        let stages = [
            Stage(.devices(Array(ids.prefix(3)))), Stage(.percent(60), soakSeconds: 5), Stage(.percent(100)),
        ].compactMap { $0 }
        let plan = try fixtures.rollout(stages: stages, attempts: 1000, haltMinimum: 2)
        rollout = try fixtures.verified(plan)
        for id in ids { devices[id] = ModelDevice(id, imageIsBad: shape.imageIsBad) }
        for number in 0..<shape.gateways {
            var hears: [DeviceID: Int] = [:]
            // Each device is heard by the gateway of its number, and perhaps by others.
            for (index, id) in ids.enumerated() where index % shape.gateways == number || chance(50) {
                hears[id] = -random(40, 90)
            }
            guard let name = GatewayName("gateway-\(number)") else { continue }
            gateways.append(ModelGateway(name, hears: hears, in: self))
        }
        controllers = (0..<2).map { _ in ModelController(self) }
        try forge(plan)
    }

    // MARK: - Time and chance

    var hasFaults: Bool { now < shape.faultTime }
    var moment: Moment {
        Moment(.milliseconds(now), wall: fixtures.created.advanced(by: Int64(now / 1000)))
    }

    func random(_ least: Int, _ most: Int) -> Int { Int.random(in: least...most, using: &random) }
    func chance(_ percent: Int) -> Bool { random(0, 99) < percent }
    func after(_ delay: Int, _ run: @escaping () -> Void) { queue.add(at: now + delay, run) }

    func after(_ delay: Int, on gateway: ModelGateway, _ run: @escaping () -> Void) {
        let instance = gateway.instance
        after(delay) { gateway.run(in: instance, run) }
    }

    func nextPush() -> Int {
        pushes += 1
        return pushes
    }

    func fail(_ text: String) { failures.append("seed \(seed), \(now) ms: \(text)") }

    // MARK: - The run

    /// Runs the world until all devices have a result.
    func run(limit: Int = 20_000_000) throws {
        let first = try SignedRecord(signing: rollout.value, with: fixtures.operatorKey).encoded()
        forged.append(first)
        store.write(rollout: first)
        // The operator pauses the rollout for some time.
        let pause = random(15_000, 60_000)
        after(pause) { [self] in change(to: .paused) }
        after(pause + random(5000, 40_000)) { [self] in change(to: .running) }
        store.onDevice = { [self] device, record, revision in
            for gateway in gateways where gateway.hears[device] != nil && !gateway.isCutOff && !store.isAway {
                after(random(5, 400), on: gateway) { gateway.observe(device, record, revision) }
            }
        }
        store.onSigned = { [self] in
            for gateway in gateways where !gateway.isCutOff && !store.isAway {
                after(random(5, 400), on: gateway) { gateway.hearSigned() }
            }
        }
        for gateway in gateways { gateway.start() }
        for (number, controller) in controllers.enumerated() { after(500 + 3000 * number) { controller.step() } }
        planFault()
        while !isOver, failures.isEmpty, now < limit, let event = queue.next() {
            now = event.time
            event.run()
            if devices.values.contains(where: \.hasMixedPushes) {
                fail("a device accepted a message of an older push after a newer push")
            }
        }
        checkEnd()
        // The events and the callbacks refer to the world.
        queue = EventQueue()
        (store.onDevice, store.onSigned) = ({ _, _, _ in }, {})
        for gateway in gateways { gateway.kill() }
    }

    private func change(to state: Rollout.State) {
        do {
            let record = try fixtures.operators.change(rollout, to: state, with: fixtures.operatorKey).encoded()
            rollout = try fixtures.operators.rollout(record)
            store.write(rollout: record)
        } catch { fail("the operator cannot change the rollout: \(error)") }
    }

    private var isOver: Bool {
        if shape.imageIsBad { return now > shape.faultTime + 600_000 }
        return !hasFaults && devices.keys.allSatisfy { store.devices[$0]?.record.state == .done }
    }

    private func planFault() {
        after(random(500, 6000)) { [self] in
            guard hasFaults else { return }
            var gateway = gateways[random(0, gateways.count - 1)]
            let fault = random(0, 9)
            // A pause is most dangerous in a transfer, if it ends during the transfer of the next gateway.
            let isTransferring = { (gateway: ModelGateway) in
                gateway.pushes.values.contains { $0.phase == .transferring }
            }
            if (3...5).contains(fault), let busy = gateways.first(where: isTransferring) { gateway = busy }
            switch fault {
            case 0...2 where gateway.isAlive:
                gateway.kill()
                after(random(1000, 20_000)) { gateway.start() }
            case 3...5 where gateway.isAlive && !gateway.isPaused:
                gateway.pause()
                let instance = gateway.instance
                let pause = chance(60) ? random(46_000, 62_000) : random(2000, 80_000)
                after(pause) { if gateway.instance == instance { gateway.wake() } }
            case 6...7 where !gateway.isCutOff:
                gateway.isCutOff = true
                after(random(3000, 70_000)) { [self] in
                    gateway.isCutOff = false
                    after(random(100, 1000), on: gateway) { gateway.resync() }
                }
            case 8 where !store.isAway:
                store.isAway = true
                after(random(2000, 30_000)) { [self] in
                    store.isAway = false
                    for gateway in gateways { after(random(100, 1000), on: gateway) { gateway.resync() } }
                }
            default: for gateway in gateways { after(random(5, 400), on: gateway) { gateway.hearSigned() } }
            }
            planFault()
        }
    }

    // MARK: - Forgeries

    /// Prepares records that no gateway may accept: signed by a stranger, or by the wrong key. The first version of the rollout is added
    /// later, because a gateway that has seen a newer version must not accept it.
    private func forge(_ plan: Rollout) throws {
        let everyone = try fixtures.rollout(stages: [Stage(.percent(100))].compactMap { $0 }, attempts: 1000)
        var machine = StageMachine(rollout, progress: nil, memory: SerialMemory())
        guard
            var text = machine.step([], in: .none, at: moment).flatMap({ try? $0.payload() }).map({
                String(decoding: $0, as: UTF8.self)
            })
        else { return fail("no progress to forge") }
        text = text.replacing(#""serial":1"#, with: #""serial":999"#).replacing(#""stage":0"#, with: #""stage":2"#)
        let everything = try RolloutProgress(payload: Array(text.utf8))
        forged = [
            try SignedRecord(signing: everyone, with: fixtures.strangerKey).encoded(),
            try SignedRecord(signing: everything, with: fixtures.strangerKey).encoded(),
            try SignedRecord(signing: everything, with: fixtures.operatorKey).encoded(),
        ]
    }

    func forgeries() -> [[UInt8]] { hasFaults && chance(10) ? forged : [] }

    // MARK: - Rules

    /// A push starts only for the signed release, to a device that a controller's progress admitted, and while no other gateway that runs
    /// pushes to the device.
    func checkStart(of assignment: Assignment, _ device: DeviceID, on gateway: ModelGateway) {
        started.insert(device)
        if assignment.release.value.id != releaseID { fail("a push of another release") }
        // A store that shows an old version of the rollout does not end a pause.
        if assignment.rollout.value.serial < gateway.serialAtStart[device] ?? 0 {
            fail("\(gateway.name) uses an old version of the rollout")
        }
        let stage = controllers.compactMap(\.highestStage).max() ?? -1
        if stage < 0 || !rollout.value.admits(device, groups: [], in: .none, upTo: stage) {
            fail("\(device) is pushed to, but no controller has admitted it")
        }
        for other in gateways where other !== gateway && other.isAlive && !other.isPaused {
            // A gateway that was paused interrupts its push when it continues. The push ends 2 s later at the latest.
            if let push = other.pushes[device], push.phase != .onTrial, !push.isInterrupted {
                fail("\(gateway.name) pushes to \(device) while \(other.name) pushes to it")
            }
        }
    }

    /// A result in the store is true.
    func check(_ record: DeviceRecord) {
        guard let device = devices[record.device] else { return fail("a record of an unknown device") }
        if record.state == .done, !device.isConfirmed { fail("\(device.id) is done, but has not confirmed the image") }
        if record.state == .givenUp, !device.imageIsBad { fail("the image is blamed: \(record.reason?.text ?? "")") }
    }

    private func checkEnd() {
        guard failures.isEmpty else { return }
        for device in devices.values {
            if device.confirmations > 1 { fail("\(device.id) was confirmed \(device.confirmations) times") }
            // The slot keeps its chunks, so each chunk is sent once, however often the gateways change.
            if device.acceptedChunks > ModelDevice.chunks { fail("\(device.id) received chunks twice") }
            if store.ends[device.id] ?? 0 > 1 { fail("\(device.id) has two results") }
            if !shape.imageIsBad, store.devices[device.id]?.record.state != .done || !device.isConfirmed {
                fail("\(device.id) is not updated")
            }
        }
        if shape.imageIsBad {
            let stored = store.progress.flatMap { try? OperatorKeys.progress($0.bytes, of: rollout) }
            if stored?.value.state != .halted { fail("the rollout is not halted") }
            // The stages nest, so at most the devices of the stage in which the halt happened have the image.
            let admitted = devices.keys.filter {
                rollout.value.admits($0, groups: [], in: .none, upTo: stored?.value.stage ?? 0)
            }
            if !started.isSubset(of: admitted) { fail("devices of a later stage were pushed to") }
        }
    }
}

/// A controller of a model world. Two of them run without a leader, which is the worst case.
final class ModelController {
    private unowned let world: ModelWorld
    private var machine: StageMachine
    private var revision: UInt64 = 0
    /// The highest stage of a progress that this controller wrote.
    private(set) var highestStage: Int?

    init(_ world: ModelWorld) {
        self.world = world
        machine = StageMachine(world.rollout, progress: nil, memory: SerialMemory())
    }

    func step() {
        world.after(5000) { [self] in step() }
        guard !world.store.isAway else { return }
        read()
        machine.update(world.rollout)
        guard let next = machine.step(world.store.devices.values.map(\.record), in: .none, at: world.moment) else {
            return
        }
        do {
            let record = try SignedRecord(signing: next, with: world.fixtures.controllerKey).encoded()
            // The gateways may hear the record before this method returns.
            let stage = highestStage
            highestStage = max(stage ?? 0, next.stage)
            guard world.store.write(progress: record, expecting: revision) else {
                highestStage = stage
                return
            }
            machine.wrote(next, at: world.moment)
            read()
        } catch { world.fail("the controller cannot sign: \(error)") }
    }

    private func read() {
        guard let stored = world.store.progress, stored.revision != revision else { return }
        revision = stored.revision
        do { machine.observe(try OperatorKeys.progress(stored.bytes, of: world.rollout)) } catch {
            world.fail("the controller refuses the progress: \(error)")
        }
    }
}
