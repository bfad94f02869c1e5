import OTAProfile
import OTASimulator
import OTAUpdate

/// The plan of a world, made from its seed: the radio, the device, the faults, and the clients that update the device in turn.
struct Fate: Sendable {
    /// True if the device uses SMP; false if it uses the GATT OTA profile.
    let speaksSMP: Bool
    var radio = RadioModel()
    var plan = FaultPlan()
    var faults = WorldFaults()
    var window = 64
    /// The number of Data values in the queue of a device with the profile, and the time that its thread needs for each of them; nil: no
    /// limit.
    var queue: (length: Int, chunkTime: Duration)?
    var writeUnit = 4
    /// The configuration of an SMP device, without its keys and its flash layout.
    var board = VirtualSMPConfiguration()
    /// The device's uptime when the first client starts.
    var age = Duration.zero
    /// Nil: all pushes are plain, and the device does not decode encoded images.
    var encoding: EncodingFate?
    /// The signatures of the releases; only with the profile.
    var signing = SigningFate()
    /// The clients, in order. Each pushes one of the world's two releases. The last client is not killed.
    var clients: [ClientFate] = []

    struct EncodingFate: Sendable {
        /// The device decodes encoded images. If false, it is an older device.
        var isOffered = true
        var offersBase = true
        /// The images that each client has as bases, in order: 0: the first image of the device, 1 and 2: the releases, 3: an image of the
        /// version of the first one with other bytes.
        var bases: [Int] = []
    }
    struct SigningFate: Sendable {
        /// The number of Ed25519 signatures in addition to the first one. The device trusts all their keys.
        var more = 0
        /// The signatures by keys that no device trusts: the number of the algorithm, and the length.
        var strangers: [(algorithm: UInt8, length: Int)] = []
        /// The number of signatures that the device requires.
        var required = 1
        /// The releases also have an ML-DSA signature, and the device requires both algorithms.
        var isHybrid = false
        /// The device's buffer is exactly as long as the longest envelope that it receives. If false, it has the default length.
        var hasTightBuffer = false
    }
    struct ClientFate: Sendable {
        /// The client encodes, if the world has encodings. If false, it is an older client.
        var encodes = true
        var release: Int
        var resumes: Bool
        var death: Int?
        var clockJump: ClockJump?
        var powerCut: PowerCut?
        var pause = Duration.zero
    }

    /// Makes the plan of a seed: odd seeds use the profile, even seeds use SMP.
    init(seed: UInt64) {
        speaksSMP = seed.isMultiple(of: 2)
        var dice = Dice(seed: seed)
        // Draws an unused number, so that the worlds that existed before SMP was added stay the same.
        _ = dice.next()
        shape(&dice)
        breakRadio(&dice)
        breakDevice(&dice)
        if dice.happens(0.35) { addVices(&dice) }
        sendClients(&dice)
        faults.seed = dice.next()
        // These faults have their own generators, so that all other values of older worlds stay the same.
        var wear = Dice(seed: ~seed)
        if wear.happens(0.1) { plan.wornPrograms = (0..<wear.number(1...2)).map { _ in wear.number(1...60) } }
        var start = Dice(seed: seed ^ 0x5354_4152_54)
        if start.happens(0.1) { startAnew(&start) }
        var encodings = Dice(seed: seed ^ 0x4C5A_4D41_32)
        if !speaksSMP, encodings.happens(1.0 / 3) { encode(&encodings) }
        var queue = Dice(seed: seed ^ 0x5155_4555_45)
        if !speaksSMP, queue.happens(0.2) {
            self.queue = (queue.number(1...40), .milliseconds(queue.one(of: [1, 5, 20])))
        }
        var signing = Dice(seed: seed ^ 0x5349_474E)
        if !speaksSMP, signing.happens(0.4) { sign(&signing) }
        if speaksSMP {
            var board = Dice(seed: seed ^ 0x534D50)
            makeBoard(&board)
        }
    }

    /// Chunks may be lost repeatedly, or false answers may make them useless.
    var losesChunks: Bool { plan.gap > 0 || faults.overflow.probability > 0 || faults.deceives }

    /// Adds two clients. The first is killed during the image. The second sends the same image from 0 and soon loses the device's power.
    ///
    /// After that, the device's record must still match the bytes in the slot.
    private mutating func startAnew(_ dice: inout Dice) {
        let release = dice.number(0...1)
        let cut = PowerCut(operation: dice.number(1...8), moment: dice.one(of: PowerCut.Moment.allCases))
        let first = ClientFate(release: release, resumes: true, death: dice.number(20...150))
        let second = ClientFate(release: release, resumes: false, powerCut: cut)
        clients.insert(contentsOf: [first, second], at: 0)
    }

    private mutating func sign(_ dice: inout Dice) {
        signing.more = dice.number(0...6)
        signing.required = dice.number(1...1 + signing.more)
        signing.hasTightBuffer = dice.happens(0.5)
        // One entry remains free for an ML-DSA signature.
        for _ in 0..<dice.number(0...6 - signing.more) {
            signing.strangers.append(dice.one(of: [(1, 64), (2, 2420), (3, 3309), (4, 4627), (0, 1), (200, 8000)]))
        }
    }

    private mutating func encode(_ dice: inout Dice) {
        var encoding = EncodingFate(isOffered: dice.happens(0.95), offersBase: dice.happens(0.9))
        var rest = Array(0...3)
        while !rest.isEmpty {
            let base = rest.remove(at: dice.number(0...rest.count - 1))
            if dice.happens(0.7) { encoding.bases.append(base) }
        }
        self.encoding = encoding
        for index in clients.indices { clients[index].encodes = dice.happens(0.85) }
    }

    private mutating func shape(_ dice: inout Dice) {
        // The smallest MTU is rare, because it needs a hundred times as many packets.
        radio.mtu = dice.happens(0.05) ? 23 : dice.one(of: [65, 185, 247, 498, 517])
        radio.perEvent = dice.number(1...6)
        radio.interval = .microseconds(dice.one(of: [7500, 15000, 30000, 50000]))
        window = dice.one(of: [1, 2, 7, 16, 64, 2047])
        writeUnit = dice.one(of: [1, 4, 8, 16, 64])
        // The device's millisecond clock wraps after 49.7 days. In some worlds it wraps during an update.
        if dice.happens(0.1) { age = .milliseconds((1 << 32) - dice.number(0...60_000)) }
    }

    private mutating func breakRadio(_ dice: inout Dice) {
        if dice.happens(0.4) { radio.loss = dice.part() * 0.3 }
        if dice.happens(0.4) { plan.gap = dice.part() * 0.1 }
        if dice.happens(0.2) { plan.notificationLoss = dice.part() * 0.02 }
        if dice.happens(0.3) { plan.notificationRefusal = dice.part() * 0.5 }
        if dice.happens(0.4) { plan.dropAt = (0..<dice.number(1...3)).map { _ in dice.part() } }
        if dice.happens(0.3) { plan.outOfReach = .milliseconds(dice.number(0...20_000)) }
        if dice.happens(0.3) { plan.cutAfterDevicePackets = [dice.number(1...400)] }
        if dice.happens(0.3) { plan.cutAfterHostEvents = [dice.number(1...200)] }
        if dice.happens(0.2) {
            faults.valueLengths = (0..<dice.number(2...4)).map { _ in dice.one(of: [62, 97, 244, 514]) }
        }
        if dice.happens(0.2) { faults.duplicate = dice.part() * 0.2 }
        if dice.happens(0.2) { faults.late = dice.part() * 0.1 }
        if dice.happens(0.1) { faults.missed = (dice.number(1...4), dice.number(1...2)) }
    }

    private mutating func breakDevice(_ dice: inout Dice) {
        if dice.happens(0.3) { plan.resetAt = [dice.part()] }
        if dice.happens(0.4) { plan.powerCuts = cuts(&dice) }
        if dice.happens(0.2) { faults.restarts = (0..<dice.number(1...3)).map { _ in dice.number(1...300) } }
        if dice.happens(0.2) { faults.stall = (dice.part() * 0.05, .milliseconds(dice.number(50...3000))) }
        if dice.happens(0.2) { faults.overflow = (dice.part() * 0.02, dice.number(1...15)) }
        if dice.happens(0.1) { faults.silence = (dice.number(1...3), dice.number(1...60)) }
        if dice.happens(0.1) { faults.reverts = dice.number(1...2) }
    }

    /// Returns power cuts. Half of them have a second cut during the recovery from the first, or while the bootloader writes its marks.
    private func cuts(_ dice: inout Dice) -> [PowerCut] {
        var cuts: [PowerCut] = []
        for _ in 0..<dice.number(1...3) {
            let operation = dice.number(1...80)
            cuts.append(PowerCut(operation: operation, moment: dice.one(of: PowerCut.Moment.allCases)))
            guard dice.happens(0.5) else { continue }
            let next = operation + dice.number(1...3)
            cuts.append(PowerCut(operation: next, moment: dice.one(of: PowerCut.Moment.allCases)))
        }
        return cuts
    }

    private mutating func addVices(_ dice: inout Dice) {
        if dice.happens(0.4) { faults.corruption = dice.part() * 0.01 }
        if dice.happens(0.4) { faults.lie = dice.part() * 0.05 }
        if dice.happens(0.3) { faults.staleTag = dice.part() * 0.1 }
        if dice.happens(0.3) { faults.garbage = dice.part() * 0.1 }
    }

    private mutating func sendClients(_ dice: inout Dice) {
        while dice.happens(0.35), clients.count < 3 {
            clients.append(
                ClientFate(
                    release: dice.number(0...1), resumes: dice.happens(0.7),
                    death: dice.happens(0.8) ? dice.number(1...200) : nil,
                    pause: dice.happens(0.3) ? .seconds(dice.number(0...100)) : .zero))
        }
        clients.append(ClientFate(release: dice.number(0...1), resumes: dice.happens(0.8)))
        for index in clients.indices where dice.happens(0.1) {
            clients[index].clockJump = ClockJump(event: dice.number(2...100), by: .seconds(dice.number(1...5000)))
        }
    }
}
