import OTASigning
import Testing
import UARTProtocol

/// The receipts of the frames that an end has sent, for tests that confirm them.
struct Receipts {
    private var receipts: [UInt16: UInt32] = [:]

    mutating func add(_ values: [[UInt8]]) {
        for frame in values.compactMap({ try? Frame(bytes: $0) }) {
            if case .data = frame.kind { receipts[frame.sequence &+ 1] = frame.receipt }
        }
    }

    /// The receipt that proves that all frames before this number have arrived. 0: the frame was not sent.
    subscript(_ next: UInt16) -> UInt32 { receipts[next] ?? 0 }

    func ack(_ next: UInt16) -> [UInt8] { Frame(.ack, next, receipt: self[next]).bytes }
}

/// Returns a central that a peripheral has greeted, and the channel of the peripheral.
func greeted() throws -> (CentralSession, Channel) {
    var central = CentralSession(conversation: 1)
    let peer = try greet(&central)
    return (central, peer)
}

/// Starts a link at the time 0, and greets the central. Returns the channel of the peripheral.
func greet(_ central: inout CentralSession) throws -> Channel {
    var peer = Channel(valueLength: 493)
    central.begin(valueLength: 493, at: .zero)
    for value in try central.output(at: .zero) { _ = try peer.receive(value, at: .zero) }
    peer.send(Message.helloAck(version: 1, conversation: 1, toggle: false, received: 0).bytes)
    var events: [CentralSession.Event] = []
    for value in try peer.output(at: .zero) { events += try central.receive(value, at: .zero) }
    #expect(events == [.ready, .toggle(false)])
    return peer
}

@Suite("UART: an end that does not follow the protocol")
struct HostileEndTests {
    private static let hello = Message.hello(version: 1, conversation: 1, received: 0)

    /// A peripheral, and a central that sends each message in a frame of its own and never confirms a frame.
    private struct Flood {
        var peripheral = PeripheralSession(image: served(204_800))
        var sequence: UInt16 = 0
        var answers = 0
        var receipts = Receipts()

        /// Passes a value to the peripheral, and records its answers.
        mutating func receive(_ value: [UInt8], at now: Duration = .zero) throws -> [PeripheralSession.Event] {
            let events = try peripheral.receive(value, at: now)
            let values = try peripheral.output(at: now)
            answers += values.count
            receipts.add(values)
            return events
        }

        /// Confirms the frames before this number.
        mutating func confirm(_ next: UInt16, at now: Duration = .zero) throws {
            _ = try receive(receipts.ack(next), at: now)
        }

        mutating func send(_ message: Message, at now: Duration = .zero) throws -> [PeripheralSession.Event] {
            let frame = Frame(.data(isLast: true, asksForAck: false, message.bytes), sequence, receipt: 0)
            sequence &+= 1
            #expect(peripheral.admit(1, valueLength: 242, at: now) == true)
            return try receive(frame.bytes, at: now)
        }
    }

    @Test(
        "a central that requests without an end and confirms nothing does not fill the peripheral's memory",
        arguments: [.toggle(true), .getImage(offset: 0, nil), .imageData([1])] as [Message])
    func requests(message: Message) throws {
        var flood = Flood()
        _ = try flood.send(Self.hello)
        for _ in 0..<3000 { _ = try flood.send(message) }
        #expect(flood.answers <= Channel.window)
        // After the flood, the central confirms all frames. The waiting frames are few.
        let before = flood.answers
        var waiting: Int { flood.answers - before }
        for number in 1...10_000 as ClosedRange<UInt16> {
            guard number <= flood.answers else { break }
            try flood.confirm(number)
            if message != .toggle(true), message != .imageData([1]), waiting > 1000 { break }  // the image
        }
        #expect(message == .getImage(offset: 0, nil) || waiting <= 2 * Channel.window)
    }

    @Test("a central that confirms frames before they arrive gets at most 5 windows, with the repetitions")
    func confirmsTooEarly() throws {
        var flood = Flood()
        _ = try flood.send(Self.hello)
        _ = try flood.send(.getImage(offset: 0, nil))
        #expect(flood.answers == Channel.window)
        for number in 1...300 as ClosedRange<UInt16> {
            for receipt in [0, UInt32(number), .max] {
                _ = try flood.receive(Frame(.ack, number, receipt: receipt).bytes)
            }
            _ = try flood.send(.getImage(offset: 0, nil))
        }
        #expect(flood.answers == Channel.window)
        // The receipt of the first copy of a frame proves nothing about its repetitions.
        let early = flood.receipts
        #expect(throws: ChannelError.noProgress) {
            for _ in 0...Channel.repetitions {
                _ = try flood.receive(Frame(.nack, 0, receipt: 0).bytes)
                for number in 1...64 as ClosedRange<UInt16> { _ = try flood.receive(early.ack(number)) }
            }
        }
        #expect(flood.answers == (1 + Channel.repetitions) * Channel.window)
    }

    @Test(
        "a central that gets 256 answers and confirms no frame loses its link",
        arguments: ["repetitions", "texts", "greetings"])
    func answersWithoutProof(values: String) throws {
        var flood = Flood()
        _ = try flood.send(Self.hello)
        #expect(throws: ChannelError.noProof) {
            for number in 0..<3000 as Range<UInt16> {
                let message: Message =
                    switch values {
                    case "repetitions": Self.hello
                    case "texts": .text("x")
                    default: .hello(version: 1, conversation: UInt64(number) + 2, received: 0)
                    }
                let sequence = values == "texts" ? number + 1 : 0
                let kind = Frame.Kind.data(isLast: true, asksForAck: true, message.bytes)
                _ = try flood.receive(Frame(kind, sequence, receipt: UInt32(number)).bytes)
            }
        }
        #expect(flood.answers > 200 && flood.answers <= Channel.maximumUnproven + Channel.window)
    }

    @Test("a central that confirms frames sends 1000 texts, and gets the state of the toggle as the only other message")
    func answersWithProof() throws {
        var air = Air(mtu: 247)
        try air.run { $0.isReady }
        for number in 1...1000 {
            let isQueued = air.central.send("\(number)")
            #expect(isQueued)
            try air.run { $0.heardByPeripheral.count == number + 1 && $0.central.isIdle }
        }
        #expect(Array(air.heardByPeripheral.dropFirst()) == (1...1000).map { .text("\($0)") })
        #expect(air.heardByCentral.dropFirst().allSatisfy { $0 == .toggle(false) } && air.heardByCentral.count < 12)
    }

    @Test("64 texts wait for the central, and the next text is refused")
    func texts() throws {
        var flood = Flood()
        #expect(flood.peripheral.send("before the greeting") == false)
        _ = try flood.send(Self.hello)
        let accepted = (0..<1000).count { flood.peripheral.send("\($0)") }
        #expect(accepted == 64)
        var central = CentralSession(conversation: 1)
        #expect((0..<1000).count { central.send("\($0)") } == 64)
        #expect(central.request(toggle: true) == false)
        var other = CentralSession(conversation: 1)
        #expect(!other.send(String(repeating: "x", count: 4096)) && other.send(String(repeating: "x", count: 4095)))
    }

    @Test(
        "a central ignores the greeting, the messages and the confirmations for another central", arguments: [18, 242])
    func otherCentralsGreeting(valueLength: Int) throws {
        var central = CentralSession(conversation: 1)
        #expect(central.send("a") == true)
        central.begin(valueLength: 20, at: .zero)
        var own = Channel(valueLength: valueLength)
        for value in try central.output(at: .zero) { _ = try own.receive(value, at: .zero) }
        // The peripheral serves the central of the conversation 2.
        var other = Channel(valueLength: valueLength)
        let greeting = Message.helloAck(version: 1, conversation: 2, toggle: true, received: 9)
        for message in [greeting, .text("b"), .toggle(true)] { other.send(message.bytes) }
        for value in try other.output(at: .zero) { #expect(try central.receive(value, at: .zero) == []) }
        for number in 1...9 as ClosedRange<UInt16> {
            #expect(try central.receive(Frame(.ack, number, receipt: 0).bytes, at: .zero) == [])
        }
        #expect(try central.output(at: .zero) == [] && central.undelivered == 1)
        // Then the other link ends, and the peripheral serves this central.
        own.send(Message.helloAck(version: 1, conversation: 1, toggle: false, received: 0).bytes)
        var events: [CentralSession.Event] = []
        for value in try own.output(at: .zero) { events += try central.receive(value, at: .zero) }
        #expect(events == [.ready, .toggle(false)])
        var heard: [[UInt8]] = []
        for value in try central.output(at: .zero) {
            if let bytes = try own.receive(value, at: .zero) { heard.append(bytes) }
        }
        #expect(heard == [Message.text("a").bytes] && central.undelivered == 1)
        for value in try own.output(at: .zero) { _ = try central.receive(value, at: .zero) }
        #expect(central.undelivered == 0)
    }

    @Test("a second greeting on one link is refused by both ends")
    func secondGreeting() throws {
        var flood = Flood()
        #expect(try flood.send(Self.hello) == [.hello])
        #expect(try flood.send(Self.hello) == [.refused(.malformed)])
        var (central, peer) = try greeted()
        central.requestImage(at: .zero)
        for _ in 0..<500 { peer.send(Message.helloAck(version: 1, conversation: 1, toggle: true, received: 0).bytes) }
        var (events, sent) = ([CentralSession.Event](), 0)
        for _ in 0..<20 {
            for value in try peer.output(at: .zero) { events += try central.receive(value, at: .zero) }
            let values = try central.output(at: .zero)
            sent += values.count
            for value in values { _ = try peer.receive(value, at: .zero) }
        }
        #expect(events == Array(repeating: .refused(.malformed), count: 500))
        #expect(sent <= 20)  // one request, and one ACK for each window
    }

    @Test("a central that does not greet is given up after 15 s")
    func silentCentral() throws {
        var flood = Flood()
        _ = try flood.send(.text("early"))
        try flood.confirm(1)
        #expect(flood.peripheral.deadline == .seconds(15))
        #expect(throws: ChannelError.noGreeting) { try flood.peripheral.output(at: .seconds(15)) }
        flood.peripheral.end(1)
        #expect(flood.peripheral.deadline == nil)
        #expect(try flood.peripheral.output(at: .seconds(20)) == [])
    }

    @Test("a peripheral that confirms the greeting and does not answer is given up after 15 s")
    func silentPeripheral() throws {
        var central = CentralSession(conversation: 1)
        central.begin(valueLength: 493, at: .seconds(1))
        var receipts = Receipts()
        receipts.add(try central.output(at: .seconds(1)))
        _ = try central.receive(receipts.ack(1), at: .seconds(1))
        #expect(central.deadline == .seconds(16))
        #expect(try central.wake(at: .seconds(15)) == [])
        #expect(throws: ChannelError.noGreeting) { try central.wake(at: .seconds(16)) }
    }

    @Test("a peripheral that sends a refusal instead of the greeting is given up after 15 s, also on a later link")
    func refusalInsteadOfGreeting() throws {
        var (central, _) = try greeted()
        central.requestImage(at: .zero)
        central.begin(valueLength: 493, at: .seconds(1))
        var peer = Channel(valueLength: 493)
        for value in try central.output(at: .seconds(1)) { _ = try peer.receive(value, at: .seconds(1)) }
        peer.send(Message.refusal(.noImage).bytes)
        var events: [CentralSession.Event] = []
        for value in try peer.output(at: .seconds(2)) { events += try central.receive(value, at: .seconds(2)) }
        #expect(events == [.refused(.noImage)] && central.deadline == .seconds(16))
        #expect(throws: ChannelError.noGreeting) { try central.wake(at: .seconds(16)) }
    }

    @Test("a transfer fails 15 s after the last byte of the image, and the conversation continues")
    func stalledImage() throws {
        let bytes = PNG.generate(size: 2000)
        let start = Message.image(size: 2000, offset: 0, SHA256.digest(of: bytes))
        for (messages, stall): ([Message], Duration) in [
            ([], .zero), ([start], .seconds(5)), ([start, .imageData([1, 2])], .seconds(5)),
        ] {
            var (central, peer) = try greeted()
            central.requestImage(at: .zero)
            let request = try central.output(at: .zero)
            var receipts = Receipts()
            receipts.add(request)
            for value in request { _ = try peer.receive(value, at: .zero) }
            for message in messages { peer.send(message.bytes) }
            for value in try peer.output(at: .seconds(5)) { _ = try central.receive(value, at: .seconds(5)) }
            // Confirmations, texts, empty parts and the toggle are not progress.
            for message in [.text("a"), .toggle(true), .imageData([])] as [Message] { peer.send(message.bytes) }
            for value in try peer.output(at: .seconds(9)) { _ = try central.receive(value, at: .seconds(9)) }
            _ = try central.receive(receipts.ack(2), at: .seconds(9))
            _ = try central.output(at: .seconds(9))
            #expect(central.deadline == stall + .seconds(15))
            #expect(try central.wake(at: stall + .seconds(15)) == [.imageFailed(.noAnswer)])
            #expect(central.download == nil && central.deadline == nil && central.send("b"))
        }
    }

    @Test("after a cut link, image bytes without an answer to the request do not extend the time of the transfer")
    func bytesWithoutAnswer() throws {
        var (central, peer) = try greeted()
        central.requestImage(at: .zero)
        for value in try central.output(at: .zero) { _ = try peer.receive(value, at: .zero) }
        peer.send(Message.image(size: 2000, offset: 0, SHA256.digest(of: PNG.generate(size: 2000))).bytes)
        peer.send(Message.imageData([1, 2]).bytes)
        for value in try peer.output(at: .zero) { _ = try central.receive(value, at: .zero) }
        #expect(central.download?.bytes == [1, 2])
        peer = try greet(&central)
        #expect(central.deadline == .seconds(15))
        let request = try central.output(at: .zero)
        var receipts = Receipts()
        receipts.add(request)
        for value in request { _ = try peer.receive(value, at: .zero) }
        _ = try central.receive(receipts.ack(2), at: .zero)
        for time in [.seconds(5), .seconds(10), .seconds(14)] as [Duration] {
            peer.send(Message.imageData([3]).bytes)
            for value in try peer.output(at: time) { #expect(try central.receive(value, at: time) == []) }
            for value in try central.output(at: time) { _ = try peer.receive(value, at: time) }
        }
        #expect(central.deadline == .seconds(15))
        #expect(try central.wake(at: .seconds(15)) == [.imageFailed(.noAnswer)])
    }

    @Test("a peripheral that starts the image again and again is refused")
    func endlessStarts() throws {
        var (central, peer) = try greeted()
        central.requestImage(at: .zero)
        let start = Message.image(size: 2000, offset: 0, SHA256.digest(of: []))
        for _ in 0..<5 { peer.send(start.bytes) }
        var events: [CentralSession.Event] = []
        for value in try peer.output(at: .zero) { events += try central.receive(value, at: .zero) }
        #expect(events == [.progress(received: 0, size: 2000), .imageFailed(.unexpectedOffset)])
    }

    @Test("a peripheral serves only the central that has written first, until its link ends")
    func twoCentrals() throws {
        var peripheral = PeripheralSession(image: nil)
        #expect(peripheral.admit(7, valueLength: 242, at: .zero) == true)
        #expect(!peripheral.admit(8, valueLength: 20, at: .zero) && peripheral.admit(7, valueLength: 242, at: .zero))
        peripheral.end(8)
        #expect(peripheral.admit(8, valueLength: 242, at: .zero) == false)
        peripheral.end(7)
        #expect(peripheral.admit(8, valueLength: 242, at: .zero) && !peripheral.admit(7, valueLength: 242, at: .zero))
    }

    @Test("a refused central does not change the frames of the served central")
    func secondCentralHasNoEffect() throws {
        var flood = Flood()
        _ = try flood.send(Self.hello)
        for _ in 0..<10 { #expect(flood.peripheral.admit(2, valueLength: 18, at: .zero) == false) }
        #expect(flood.peripheral.send(String(repeating: "x", count: 200)) == true)
        // One frame of 242 bytes: the MTU of the refused central has no effect.
        #expect(try flood.peripheral.output(at: .zero).map(\.count) == [210])
    }

    @Test("the texts for an earlier central do not count for a central that has not greeted")
    func textsForAnotherCentral() throws {
        var flood = Flood()
        _ = try flood.send(Self.hello)
        #expect(flood.peripheral.send("lost") && flood.peripheral.undelivered == 1)
        flood.peripheral.end(1)
        _ = try flood.send(.text("a stranger"))
        #expect(flood.peripheral.undelivered == 0)
        flood.peripheral.end(1)
        flood.sequence = 0
        #expect(try flood.send(Self.hello) == [.hello] && flood.peripheral.undelivered == 1)
    }

    @Test(
        "any number of greetings does not displace a conversation with messages, over one link and over new links",
        arguments: [true, false])
    func greetings(isOneLink: Bool) throws {
        var flood = Flood()
        for number in [1, 2] as [UInt64] {
            _ = try flood.send(.hello(version: 1, conversation: number, received: 0))
            // The first conversation has a text of the central, and the second one has a text of the peripheral.
            if number == 1 { _ = try flood.send(.text("one")) } else { #expect(flood.peripheral.send("two") == true) }
            flood.peripheral.end(1)
            flood.sequence = 0
        }
        for number in 3...50 as ClosedRange<UInt64> {
            let events = try flood.send(.hello(version: 1, conversation: number, received: 7))
            #expect(events.last == .hello)
            if !isOneLink { flood.peripheral.end(1) }
            flood.sequence = 0
        }
        _ = try flood.send(.hello(version: 1, conversation: 2, received: 0))
        #expect(flood.peripheral.undelivered == 1)
        flood.peripheral.end(1)
        #expect(flood.peripheral.admit(2, valueLength: 242, at: .zero) == true)
        var central = Channel(valueLength: 242)
        central.send(Message.hello(version: 1, conversation: 1, received: 0).bytes)
        for value in try central.output(at: .zero) { _ = try flood.peripheral.receive(value, at: .zero) }
        let answers = try flood.peripheral.output(at: .zero).compactMap { try central.receive($0, at: .zero) }
        #expect(answers == [Message.helloAck(version: 1, conversation: 1, toggle: false, received: 1).bytes])
    }

    @Test("a new program on the link of a killed program starts a new session, and a repeated greeting does not")
    func newProgramOnTheLink() throws {
        var flood = Flood()
        _ = try flood.send(Self.hello)
        for number in 0..<3 { _ = try flood.send(.text("\(number)")) }
        #expect(flood.peripheral.send("lost") == true)
        let repeated = Frame(.data(isLast: true, asksForAck: true, Self.hello.bytes), 0, receipt: 0)
        #expect(try flood.peripheral.receive(repeated.bytes, at: .zero) == [])
        flood.sequence = 0
        let other = Message.hello(version: 1, conversation: 2, received: 0)
        #expect(try flood.send(other) == [.replaced(undelivered: 1), .hello])
        #expect(try flood.send(.text("next")) == [.text("next")])
    }

    @Test("another version of the protocol on the link of a killed program is given up after 15 s")
    func otherVersionOnTheLink() throws {
        var flood = Flood()
        _ = try flood.send(Self.hello)
        flood.sequence = 0
        let other = Message.hello(version: 9, conversation: 2, received: 0)
        #expect(try flood.send(other, at: .seconds(1)) == [.replaced(undelivered: 0), .refused(.unknownVersion)])
        try flood.confirm(1, at: .seconds(1))
        #expect(throws: ChannelError.noGreeting) { try flood.peripheral.output(at: .seconds(16)) }
    }

    @Test("a central that has greeted and is idle for 60 s can be replaced, and a central with traffic cannot")
    func idle() throws {
        var flood = Flood()
        #expect(!flood.peripheral.isIdle(at: .seconds(100)))
        _ = try flood.send(Self.hello, at: .seconds(1))
        try flood.confirm(1, at: .seconds(2))
        #expect(!flood.peripheral.isIdle(at: .seconds(61)) && flood.peripheral.isIdle(at: .seconds(62)))
        // Repetitions, confirmations of nothing and damaged values are not traffic.
        try flood.confirm(1, at: .seconds(50))
        for value in [[1, 2], Frame(.data(isLast: true, asksForAck: true, [3]), 0, receipt: 0).bytes] {
            _ = try flood.receive(value, at: .seconds(50))
        }
        #expect(flood.peripheral.isIdle(at: .seconds(62)))
        _ = try flood.send(.text("a"), at: .seconds(63))
        #expect(!flood.peripheral.isIdle(at: .seconds(122)))
        // A central that only confirms parts of the image is not idle.
        _ = try flood.send(.getImage(offset: 0, nil), at: .seconds(123))
        try flood.confirm(3, at: .seconds(180))
        #expect(!flood.peripheral.isIdle(at: .seconds(239)) && flood.peripheral.isIdle(at: .seconds(240)))
        flood.peripheral.end(1)
        #expect(!flood.peripheral.isIdle(at: .seconds(1000)))
    }
}
