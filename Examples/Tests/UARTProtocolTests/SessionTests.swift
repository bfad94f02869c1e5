import OTASigning
import Testing
import UARTProtocol

/// Both ends, and a radio between them that can lose, duplicate and damage values, and cut the link. The time advances only in ``run(_:)``.
struct Air {
    enum Fault: CaseIterable { case none, lose, duplicate, damage, truncate }

    var central = CentralSession(conversation: 1)
    var peripheral: PeripheralSession
    var now = Duration.zero
    var faultOfRX: (Int) -> Fault = { _ in .none }
    var faultOfTX: (Int) -> Fault = { _ in .none }
    private var link = 0
    private(set) var sentByCentral = 0
    private(set) var sentByPeripheral = 0
    private(set) var longest = 0
    var heardByCentral: [CentralSession.Event] = []
    var heardByPeripheral: [PeripheralSession.Event] = []
    private var mtu = 0

    init(mtu: Int, image: ServedImage? = nil) {
        peripheral = PeripheralSession(image: image)
        connect(mtu: mtu)
    }

    /// Starts a new link, as after a cut.
    mutating func connect(mtu: Int) {
        peripheral.end(link)
        link += 1
        self.mtu = mtu
        central.begin(valueLength: UARTService.valueLength(atMost: mtu - 3), at: now)
    }

    static func arriving(_ value: [UInt8], _ fault: Fault) -> [[UInt8]] {
        switch fault {
        case .none: [value]
        case .lose: []
        case .duplicate: [value, value]
        case .damage: [value.map { $0 ^ 0x10 }]
        // The receipts are random: one in 65536 truncated frames is again a frame with a right checksum.
        case .truncate: (try? Frame(bytes: value.dropLast(2))) == nil ? [value.dropLast(2)] : []
        }
    }

    /// Passes the values of both ends to the other end. Returns whether there was a value. At most `limit` values of each end arrive; the
    /// others are lost.
    mutating func step(limit: Int = .max) throws -> Bool {
        heardByCentral += try central.wake(at: now)
        let written = try central.output(at: now)
        for value in written.prefix(limit) {
            longest = max(longest, value.count)
            sentByCentral += 1
            for value in Self.arriving(value, faultOfRX(sentByCentral)) {
                let isAdmitted = peripheral.admit(
                    link, valueLength: UARTService.valueLength(atMost: mtu - 5), at: now)
                #expect(isAdmitted)
                heardByPeripheral += try peripheral.receive(value, at: now)
            }
        }
        let notified = try peripheral.output(at: now)
        for value in notified.prefix(limit) {
            longest = max(longest, value.count)
            sentByPeripheral += 1
            for value in Self.arriving(value, faultOfTX(sentByPeripheral)) {
                heardByCentral += try central.receive(value, at: now)
            }
        }
        return !written.isEmpty || !notified.isEmpty
    }

    /// Advances the time to the next deadline of an end. Throws if no end has a deadline.
    mutating func sleep() throws {
        now = try #require([central.deadline, peripheral.deadline].compactMap { $0 }.min(), "both ends are idle")
    }

    /// Runs both ends until `isOver` is true. Throws if nothing happens any more.
    mutating func run(until isOver: (Air) -> Bool) throws {
        for _ in 0..<20_000 {
            if isOver(self) { return }
            guard try !step() else { continue }
            if isOver(self) { return }
            try sleep()
        }
        Issue.record("the transfer does not end")
    }

    var image: [UInt8]? {
        heardByCentral.lazy.compactMap { if case .image(let bytes, _) = $0 { bytes } else { nil } }.first
    }
    var isReady: Bool { heardByCentral.contains(.ready) }
}

func served(_ size: Int) -> ServedImage {
    let bytes = PNG.generate(size: size)
    return ServedImage(bytes, SHA256.digest(of: bytes))
}

/// A generator with a seed (SplitMix64), so that each run has the same faults.
struct Seeded: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ z >> 30) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ z >> 27) &* 0x94D0_49BB_1331_11EB
        return z ^ z >> 31
    }
}

@Suite("UART: both ends of a link")
struct SessionTests {
    @Test("the greeting is answered with the state of the toggle, and texts and the toggle pass in both directions")
    func conversation() throws {
        var air = Air(mtu: 23)
        try air.run { $0.isReady }
        #expect(air.heardByPeripheral == [.hello] && air.heardByCentral == [.ready, .toggle(false)])
        let long = String(repeating: "Grüße 👋 ", count: 200)
        #expect(air.central.send(long) && air.central.request(toggle: true) && air.peripheral.send("Hello"))
        try air.run { $0.heardByCentral.count == 4 && $0.heardByPeripheral.count == 3 }
        #expect(air.heardByPeripheral == [.hello, .text(long), .toggle(true)])
        #expect(air.heardByCentral.suffix(2) == [.text("Hello"), .toggle(true)] && air.peripheral.toggle)
        air.peripheral.set(toggle: false)
        try air.run { $0.heardByCentral.last == .toggle(false) }
    }

    @Test(
        "an image arrives complete at every MTU, and no value is longer than the MTU permits",
        arguments: [23, 24, 64, 185, 247, 255, 498, 517])
    func image(mtu: Int) throws {
        let image = served(20_000)
        var air = Air(mtu: mtu, image: image)
        try air.run { $0.isReady }
        air.central.requestImage(at: air.now)
        try air.run { $0.heardByPeripheral.contains(.sentImage) }
        #expect(air.image == image.bytes && air.longest <= mtu - 3 && air.central.download == nil)
        #expect(air.heardByPeripheral == [.hello, .sendingImage(offset: 0), .sentImage])
        let progress = air.heardByCentral.compactMap {
            if case .progress(let count, 20_000) = $0 { count } else { nil }
        }
        #expect(progress == progress.sorted() && progress.first == 0 && progress.last == 20_000)
    }

    @Test("a text arrives during the transfer of a large image, not after it")
    func interleaved() throws {
        var air = Air(mtu: 23, image: served(204_800))
        try air.run { $0.isReady }
        air.central.requestImage(at: air.now)
        try air.run { $0.sentByPeripheral > 500 }
        #expect(air.peripheral.send("now") == true)
        let before = air.sentByPeripheral
        try air.run { $0.heardByCentral.contains(.text("now")) }
        #expect(air.sentByPeripheral - before <= 3 * Channel.window)
    }

    @Test(
        "at any order of faults, each text arrives once and in order, and the image arrives",
        arguments: 0..<40 as Range<UInt64>)
    func faults(seed: UInt64) throws {
        var random = Seeded(state: seed)
        let mtu = [23, 60, 247, 517].randomElement(using: &random) ?? 23
        let kinds: [Air.Fault] = [.none, .lose, .duplicate, .damage, .truncate]
        let faults = (0..<4000).map { _ in
            UInt8.random(in: 0..<100, using: &random) < 8 ? kinds.randomElement(using: &random) ?? .none : .none
        }
        let image = served(Int.random(in: 1024...20_000, using: &random))
        var air = Air(mtu: mtu, image: image)
        air.faultOfRX = { faults[$0 * 7 % faults.count] }
        air.faultOfTX = { faults[($0 * 3 + 1) % faults.count] }
        try air.run { $0.isReady }
        air.central.requestImage(at: air.now)
        for number in 0..<20 { #expect(air.central.send("\(number)") == true) }
        try air.run { $0.heardByPeripheral.contains(.sentImage) && $0.heardByPeripheral.count == 23 }
        #expect(air.image == image.bytes)
        let texts = air.heardByPeripheral.compactMap { if case .text(let text) = $0 { text } else { nil } }
        #expect(texts == (0..<20).map { "\($0)" })
    }

    @Test("a lost frame costs one repetition of the window, without a wait")
    func lostFrame() throws {
        var air = Air(mtu: 247, image: served(50_000))
        air.faultOfTX = { $0 == 100 ? .lose : .none }
        try air.run { $0.isReady }
        air.central.requestImage(at: air.now)
        try air.run { $0.image != nil }
        #expect(air.now == .zero && air.sentByPeripheral <= 50_000 / 236 + 2 * Channel.window)
    }

    @Test("a link that loses each frame is given up after four repetitions, 2 s apart")
    func silence() throws {
        var air = Air(mtu: 247)
        air.faultOfRX = { _ in .lose }
        #expect(throws: ChannelError.noProgress) { try air.run { $0.isReady } }
        #expect(air.now == .seconds(10) && air.sentByCentral == 5)
    }

    @Test("a peripheral whose values are always truncated is given up")
    func truncated() throws {
        var air = Air(mtu: 247, image: served(5000))
        try air.run { $0.isReady }
        air.central.requestImage(at: air.now)
        air.faultOfTX = { _ in .truncate }
        #expect(throws: ChannelError.noProgress) { try air.run { $0.image != nil } }
    }

    @Test("after a cut link, the next link continues at the received offset", arguments: [1, 13, 64, 200])
    func resumes(cut: Int) throws {
        let image = served(100_000)
        var air = Air(mtu: 247, image: image)
        try air.run { $0.isReady }
        air.central.requestImage(at: air.now)
        try air.run { $0.sentByPeripheral > cut }
        let received = try #require(air.central.download).bytes.count
        air.connect(mtu: 247)
        try air.run { $0.image != nil }
        #expect(air.image == image.bytes)
        #expect(air.heardByPeripheral.contains(.sendingImage(offset: received)))
    }

    @Test("if the peripheral has another image after a cut link, the transfer starts at 0")
    func otherImage() throws {
        var air = Air(mtu: 247, image: served(60_000))
        try air.run { $0.isReady }
        air.central.requestImage(at: air.now)
        try air.run { $0.sentByPeripheral > 100 }
        let image = served(30_000)
        air.peripheral = PeripheralSession(image: image)
        air.heardByPeripheral = []
        air.connect(mtu: 247)
        try air.run { $0.image != nil }
        #expect(air.image == image.bytes && air.heardByPeripheral.contains(.sendingImage(offset: 0)))
    }

    @Test("more than 65536 frames pass over one link")
    func sequenceNumbersWrap() throws {
        var air = Air(mtu: 23, image: served(204_800))
        try air.run { $0.isReady }
        for number in 1...6 {
            air.central.requestImage(at: air.now)
            try air.run { $0.heardByPeripheral.count { $0 == .sentImage } == number }
        }
        #expect(air.sentByPeripheral > 65_536)
        #expect(air.heardByCentral.count { if case .image = $0 { true } else { false } } == 6)
    }

    @Test("a wrong digest, another size and another offset end the transfer, and a later request succeeds")
    func hostilePeripheral() throws {
        let bytes = PNG.generate(size: 2000)
        let digest = SHA256.digest(of: bytes)
        let cases: [([Message], ImageError)] = [
            ([.image(size: 2000, offset: 0, SHA256.digest(of: [])), .imageData(bytes)], .wrongDigest),
            ([.image(size: 2000, offset: 0, digest), .imageData(bytes + [0])], .unexpectedData),
            ([.image(size: 1023, offset: 0, digest)], .unsupportedSize),
            ([.image(size: .max, offset: 0, digest)], .unsupportedSize),
            ([.image(size: 2000, offset: 4, digest)], .unexpectedOffset),
            (
                [
                    .image(size: 1024, offset: 0, SHA256.digest(of: [UInt8](repeating: 7, count: 1024))),
                    .imageData([UInt8](repeating: 7, count: 1024)),
                ], .noPNG
            ),
        ]
        for (messages, error) in cases {
            var (central, peer) = try greeted()
            var events: [CentralSession.Event] = []
            let good: [Message] = [.image(size: 2000, offset: 0, digest), .imageData(bytes)]
            for messages in [messages, good] {
                central.requestImage(at: .zero)
                for message in messages { peer.send(message.bytes) }
                for value in try peer.output(at: .zero) { events += try central.receive(value, at: .zero) }
                for value in try central.output(at: .zero) { _ = try peer.receive(value, at: .zero) }
            }
            #expect(events.filter { $0 == .imageFailed(error) }.count == 1)
            #expect(events.last == .image(bytes, digest))
        }
    }

    @Test("a peripheral without an image, another version, and messages before the greeting are refused with a reason")
    func refusals() throws {
        var air = Air(mtu: 247)
        try air.run { $0.isReady }
        air.central.requestImage(at: air.now)
        try air.run { $0.heardByCentral.last == .refused(.noImage) }
        #expect(air.central.download == nil)

        for (bytes, refusal) in [
            (Message.hello(version: 9, conversation: 1, received: 0).bytes, Refusal.unknownVersion),
            (Message.text("early").bytes, .malformed),
            ([77], .malformed),
        ] {
            var peripheral = PeripheralSession(image: nil)
            #expect(peripheral.admit(1, valueLength: 242, at: .zero) == true)
            var peer = Channel(valueLength: 242)
            peer.send(bytes)
            let values = try peer.output(at: .zero)
            #expect(try values.flatMap { try peripheral.receive($0, at: .zero) } == [.refused(refusal)])
            let answers = try peripheral.output(at: .zero).compactMap { try peer.receive($0, at: .zero) }
            #expect(try answers.map { try Message(bytes: $0) } == [.refusal(refusal)])
        }
    }

    @Test(
        "random values and random frames never end the process, and memory remains bounded",
        arguments: 0..<20 as Range<UInt64>)
    func hostileBytes(seed: UInt64) throws {
        var random = Seeded(state: seed)
        var peripheral = PeripheralSession(image: served(1024))
        var central = CentralSession(conversation: 1)
        central.begin(valueLength: 242, at: .zero)
        #expect(peripheral.admit(1, valueLength: 242, at: .zero) == true)
        var expected: UInt16 = 0
        var receipts = Receipts()
        for _ in 0..<500 {
            let data = (0..<Int.random(in: 0...30, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random)
            }
            let sequence = Bool.random(using: &random) ? expected : UInt16.random(in: 0...UInt16.max, using: &random)
            let kinds: [Frame.Kind] = [.ack, .nack, .data(isLast: Bool.random(using: &random), asksForAck: true, data)]
            let isRaw = UInt8.random(in: 0..<4, using: &random) == 0
            let frame = Frame(
                kinds.randomElement(using: &random) ?? .ack, sequence, receipt: receipts[sequence])
            let value = isRaw ? data : frame.bytes
            do {
                _ = try peripheral.receive(value, at: .zero)
                _ = try central.receive(value, at: .zero)
                receipts.add(try peripheral.output(at: .zero))
                _ = try central.output(at: .zero)
            } catch { return }
            if case .data = (try? Frame(bytes: value))?.kind, sequence == expected { expected &+= 1 }
        }
    }

    @Test("a message without an end is refused after 4096 bytes")
    func endlessMessage() throws {
        var channel = Channel(valueLength: 493)
        var sent = 0
        #expect(throws: ChannelError.messageTooLong) {
            for number in 0..<100 as Range<UInt16> {
                let frame = Frame(
                    .data(isLast: false, asksForAck: false, [UInt8](repeating: 1, count: 488)), number,
                    receipt: 0)
                _ = try channel.receive(frame.bytes, at: .zero)
                sent += 488
            }
        }
        #expect(sent == 3904)
    }

    @Test("an acknowledgement of frames that were never sent has no effect")
    func falseAck() throws {
        var channel = Channel(valueLength: 20)
        channel.send([1])
        for sequence: UInt16 in [1, 2, 500, 0xFFFF] {
            _ = try channel.receive(Frame(.ack, sequence, receipt: 0).bytes, at: .zero)
        }
        #expect(!channel.isIdle)
        let values = try channel.output(at: .zero)
        #expect(values.count == 1)
        var receipts = Receipts()
        receipts.add(values)
        for receipt in [receipts[1] ^ 1, receipts[1] &+ 1, 0] {
            _ = try channel.receive(Frame(.ack, 1, receipt: receipt).bytes, at: .zero)
        }
        _ = try channel.receive(Frame(.ack, 2, receipt: receipts[1]).bytes, at: .zero)
        #expect(!channel.isIdle)
        _ = try channel.receive(receipts.ack(1), at: .zero)
        #expect(channel.isIdle && channel.deadline == nil)
    }
}
