import OTASigning
import Testing
import UARTProtocol

@Suite("UART: messages after cut links")
struct CutTests {
    private static func texts(_ air: Air) -> (byCentral: [String], byPeripheral: [String]) {
        (
            air.heardByCentral.compactMap { if case .text(let text) = $0 { text } else { nil } },
            air.heardByPeripheral.compactMap { if case .text(let text) = $0 { text } else { nil } }
        )
    }

    @Test("texts and the toggle that were lost with the link are sent over the next link")
    func lost() throws {
        var air = Air(mtu: 247)
        try air.run { $0.isReady }
        #expect(air.central.send("one") && air.central.request(toggle: true) && air.peripheral.send("two"))
        _ = try air.step(limit: 0)
        #expect(air.central.undelivered == 2 && air.peripheral.undelivered == 1)
        air.connect(mtu: 23)
        try air.run { $0.central.undelivered == 0 && $0.peripheral.undelivered == 0 && $0.central.isIdle }
        #expect(Self.texts(air) == (["two"], ["one"]) && air.peripheral.toggle)
        #expect(air.heardByPeripheral == [.hello, .hello, .text("one"), .toggle(true)])
    }

    @Test("messages that have arrived before the cut are not shown again, also if their confirmation was lost")
    func confirmationLost() throws {
        var air = Air(mtu: 247)
        try air.run { $0.isReady }
        #expect(air.central.send("one") && air.central.request(toggle: true))
        air.faultOfTX = { _ in .lose }
        _ = try air.step()
        #expect(Self.texts(air).byPeripheral == ["one"] && air.central.undelivered == 2)
        air.faultOfTX = { _ in .none }
        #expect(air.central.send("two") == true)
        air.connect(mtu: 247)
        try air.run { $0.central.undelivered == 0 }
        #expect(air.heardByPeripheral == [.hello, .text("one"), .toggle(true), .hello, .text("two")])
    }

    @Test("a peripheral remembers eight conversations, so that a central between two links changes nothing")
    func otherCentral() throws {
        var air = Air(mtu: 247)
        try air.run { $0.isReady }
        #expect(air.central.send("one") && air.peripheral.send("first"))
        air.faultOfTX = { _ in .lose }
        _ = try air.step()
        air.faultOfTX = { _ in .none }
        let (central, heard) = (air.central, air.heardByCentral)
        for number in 2...8 as ClosedRange<UInt64> {
            air.central = CentralSession(conversation: number)
            air.heardByCentral = []
            #expect(air.central.send("other") == true)
            air.connect(mtu: 247)
            try air.run { $0.central.isIdle && $0.isReady }
            #expect(Self.texts(air).byCentral == [])
        }
        (air.central, air.heardByCentral) = (central, heard)
        air.connect(mtu: 247)
        try air.run { $0.central.isIdle && $0.peripheral.undelivered == 0 }
        #expect(Self.texts(air) == (["first"], ["one"] + Array(repeating: "other", count: 7)))
    }

    @Test(
        "after a restart of the peripheral, the messages that it has not confirmed are sent, and later ones are counted again"
    )
    func restart() throws {
        var air = Air(mtu: 247)
        try air.run { $0.isReady }
        for number in 1...5 { #expect(air.central.send("\(number)") && air.peripheral.send("\(-number)")) }
        try air.run { $0.central.undelivered == 0 && $0.peripheral.undelivered == 0 }
        #expect(air.central.send("6") == true)
        air.peripheral = PeripheralSession(image: nil)
        air.connect(mtu: 247)
        try air.run { $0.central.undelivered == 0 }
        #expect(air.peripheral.send("-6") == true)
        air.connect(mtu: 247)
        // Before the greeting of the new link, the peripheral keeps the text.
        try air.run { $0.peripheral.undelivered == 0 && $0.central.isIdle }
        #expect(Self.texts(air) == ((1...6).map { "\(-$0)" }, (1...6).map { "\($0)" }))
    }

    @Test(
        "a peripheral that reports a wrong number of received messages cannot end the process",
        arguments: [0, 1, 3, 64, .max] as [UInt32])
    func wrongCount(received: UInt32) throws {
        var central = CentralSession(conversation: 1)
        #expect(central.send("a") && central.send("b"))
        for _ in 0..<3 {
            var peer = Channel(valueLength: 242)
            central.begin(valueLength: 242, at: .zero)
            var receipts = Receipts()
            let greeting = try central.output(at: .zero)
            receipts.add(greeting)
            for value in greeting { _ = try peer.receive(value, at: .zero) }
            peer.send(Message.helloAck(version: 1, conversation: 1, toggle: false, received: received).bytes)
            for value in try peer.output(at: .zero) { _ = try central.receive(value, at: .zero) }
            for sequence in 1...5 as ClosedRange<UInt16> {
                receipts.add(try central.output(at: .zero))
                _ = try central.receive(receipts.ack(sequence), at: .zero)
            }
            #expect(central.undelivered <= 2)
        }
    }

    @Test(
        "at any order of faults and cuts, everything arrives once and in order, the image is right, and no end waits without a deadline",
        arguments: 0..<300 as Range<UInt64>)
    func random(seed: UInt64) throws {
        var random = Seeded(state: seed)
        let mtus = [23, 60, 185, 247, 517]
        let image = served(Int.random(in: 1024...9000, using: &random))
        var air = Air(mtu: 247, image: image)
        let faults = (0..<997).map { _ in
            UInt8.random(in: 0..<100, using: &random) < 6
                ? Air.Fault.allCases.randomElement(using: &random) ?? .none : .none
        }
        air.faultOfRX = { faults[$0 % faults.count] }
        air.faultOfTX = { faults[($0 * 3 + 1) % faults.count] }
        var (sentByCentral, sentByPeripheral, toggles, cuts) = ([String](), [String](), [Bool](), 0)
        var (isAsked, idle, greetings) = (false, 0, 0)
        for round in 0... {
            guard round < 20_000, air.now < .seconds(10_000) else {
                Issue.record("the conversation does not end")
                return
            }
            // In the first part, the users act, and the link is cut in every state.
            if sentByCentral.count < 30 || !isAsked || cuts < 12 {
                switch Int.random(in: 0..<12, using: &random) {
                case 0...2:
                    let text =
                        "\(sentByCentral.count)"
                        + String(repeating: "ü", count: Int.random(in: 0..<300, using: &random))
                    if air.central.send(text) { sentByCentral.append(text) }
                case 3...4:
                    let text =
                        "\(sentByPeripheral.count)"
                        + String(repeating: "x", count: Int.random(in: 0..<300, using: &random))
                    if air.peripheral.send(text) { sentByPeripheral.append(text) }
                case 5:
                    let on = Bool.random(using: &random)
                    if air.central.request(toggle: on) { toggles.append(on) }
                case 6 where !isAsked:
                    air.central.requestImage(at: air.now)
                    isAsked = true
                case 7...8:
                    // A part of the values arrives, and the others are lost with the link.
                    _ = try? air.step(limit: Int.random(in: 0..<4, using: &random))
                    air.connect(mtu: mtus.randomElement(using: &random) ?? 23)
                    cuts += 1
                default: break
                }
            } else if air.central.isIdle, air.peripheral.undelivered == 0, air.central.download == nil, idle > 3 {
                break
            }
            do {
                if try air.step() {
                    idle = 0
                } else {
                    idle += 1
                    if air.central.deadline != nil || air.peripheral.deadline != nil { try air.sleep() }
                }
            } catch is ChannelError {
                // Both programs end the link, and the central connects again.
                air.connect(mtu: mtus.randomElement(using: &random) ?? 23)
            }
            greetings = air.heardByCentral.count { $0 == .ready }
        }
        let heard = Self.texts(air)
        #expect(heard.byPeripheral == sentByCentral)
        #expect(heard.byCentral == sentByPeripheral)
        let toggled = air.heardByPeripheral.compactMap { if case .toggle(let on) = $0 { on } else { nil } }
        #expect(toggled == toggles)
        let shown = air.heardByCentral.compactMap { if case .toggle(let on) = $0 { on } else { nil } }
        #expect(shown.last == air.peripheral.toggle && greetings > 0)
        let images = air.heardByCentral.filter { if case .image = $0 { true } else { false } }
        #expect(images == [.image(image.bytes, image.digest)])
        #expect(!air.heardByCentral.contains { if case .imageFailed = $0 { true } else { false } })
    }
}
