import BlueZ
import OTASigning
import Testing
import UARTProtocol

@Suite("UART: the central's screen")
struct CentralScreenTests {
    private static let keys = "Tab: next device   Return: connect   Control-D: quit"
    private static let bench = device(42, "Bench")
    private static let lamp = device(43, "Lamp", rssi: -60)
    private var screen = CentralScreen()

    private static func device(_ number: Int, _ name: String, rssi: Int = -50) -> CentralScreen.Device {
        guard let address = BluetoothAddress("00:AA:01:00:00:\(number)") else { preconditionFailure("two digits") }
        return CentralScreen.Device(address: address, name: name, rssi: rssi)
    }

    /// Types the characters, and returns the actions of the program.
    private mutating func type(_ characters: String) -> [CentralScreen.Action] {
        characters.compactMap { screen.handle(.key($0)) }
    }

    private mutating func connect() {
        _ = screen.handle(.found(Self.bench))
        _ = type("\n")
        _ = screen.handle(.session(.ready))
        _ = screen.handle(.session(.toggle(false)))
    }

    @Test("the list has the devices whose name contains the filter, in the order in which they were found")
    mutating func filters() {
        _ = screen.handle(.found(Self.bench))
        _ = screen.handle(.found(Self.lamp))
        #expect(
            screen.lines == [
                "Name filter: _", "", "> Bench  00:AA:01:00:00:42  -50 dBm", "  Lamp  00:AA:01:00:00:43  -60 dBm", "",
                Self.keys,
            ])
        #expect(type("x\u{15}LA") == [])
        #expect(screen.lines == ["Name filter: LA_", "", "> Lamp  00:AA:01:00:00:43  -60 dBm", "", Self.keys])
        #expect(type("\u{7F}\u{7F}\u{7F}") == [])
        #expect(screen.lines.contains("> Lamp  00:AA:01:00:00:43  -60 dBm"))
        _ = screen.handle(.disappeared(Self.bench.address))
        var closer = Self.lamp
        closer.rssi = -40
        _ = screen.handle(.found(closer))
        #expect(screen.lines == ["Name filter: _", "", "> Lamp  00:AA:01:00:00:43  -40 dBm", "", Self.keys])
    }

    @Test("Return connects to the selected device, and has no effect on an empty list")
    mutating func connects() {
        #expect(type("\n") == [])
        _ = screen.handle(.found(Self.bench))
        _ = screen.handle(.found(Self.lamp))
        #expect(type("\t\t\t\n") == [.connect(Self.lamp)])
        #expect(screen.lines.first == "Lamp  00:AA:01:00:00:43  connecting…")
    }

    @Test("Return connects to the marked device, also if other devices appear or disappear before it")
    mutating func marks() {
        _ = screen.handle(.found(Self.lamp))
        _ = screen.handle(.found(Self.bench))
        var renamed = Self.lamp
        renamed.name = "Zebra"
        _ = screen.handle(.found(renamed))
        #expect(screen.lines[2].hasPrefix("> Zebra") && screen.lines[3].hasPrefix("  Bench"))
        _ = screen.handle(.disappeared(Self.lamp.address))
        #expect(type("\n") == [] && screen.lines[2].hasPrefix("  Bench"))
        #expect(type("\t\n") == [.connect(Self.bench)])
    }

    @Test("a list that is higher than the terminal shows the devices around the selected one", arguments: [6, 9, 24])
    mutating func height(height: Int) {
        for number in 10..<50 {
            _ = screen.handle(.found(Self.device(number, "D\(number)")))
        }
        #expect(screen.lines.count == 44 && screen.lines(height: 44) == screen.lines)
        for number in 0..<80 {
            let lines = screen.lines(height: height)
            #expect(lines.count == height && lines.filter { $0.hasPrefix("> ") }.count == 1)
            #expect(lines.contains { $0.hasPrefix("> D\(10 + number % 40)  ") } && lines.last == Self.keys)
            _ = type("\t")
        }
        #expect(screen.lines(height: height)[1] == "Devices 1 to \(height - 4) of 40")
    }

    @Test("characters that do not fit in the line are reported once, and the line is sent without them")
    mutating func longLine() {
        connect()
        let cluster = "e" + String(repeating: "\u{301}", count: 2100)
        #expect(cluster.count == 1 && type(cluster) == [] && screen.lines.contains("_"))
        let full = "The line is full: 4095 bytes. The last characters are not in the line."
        #expect(screen.lines.filter { $0 == full }.count == 1)
        let text = String(repeating: "x", count: 4094)
        #expect(type(text + "üüüyzz\n") == [.send(text + "y")])
        #expect(screen.lines.filter { $0 == full }.count == 1)
    }

    @Test("a failed scan shows its reason once and no old devices, and a found device is listed again")
    mutating func scanFails() {
        _ = screen.handle(.found(Self.bench))
        for _ in 0..<3 { _ = screen.handle(.scanFailed("the adapter is off")) }
        #expect(screen.lines == ["the adapter is off", "Name filter: _", "", "", Self.keys])
        _ = screen.handle(.found(Self.bench))
        #expect(screen.lines.contains("> Bench  00:AA:01:00:00:42  -50 dBm") && type("\n") == [.connect(Self.bench)])
    }

    @Test("the awaited device is connected once when it is found")
    mutating func awaits() {
        screen = CentralScreen(awaiting: Self.lamp.address)
        #expect(screen.handle(.found(Self.bench)) == nil)
        #expect(screen.handle(.found(Self.lamp)) == .connect(Self.lamp))
        _ = screen.handle(.ended(reason: nil, undelivered: 0))
        #expect(screen.handle(.found(Self.lamp)) == nil)
    }

    @Test("a typed line is sent, and a line with a command is an action")
    mutating func enters() {
        connect()
        #expect(type("Grüße 👋!\u{7F}\n") == [.send("Grüße 👋")])
        #expect(type("/toggle\n") == [.toggle(true)])
        _ = screen.handle(.session(.toggle(true)))
        #expect(screen.lines.first == "Bench  00:AA:01:00:00:42  toggle on")
        #expect(type("/toggle\r/image\n/disconnect\n\n") == [.toggle(false), .getImage, .disconnect])
        #expect(type("\u{1}\u{1B}a") == [] && screen.lines.contains("a_"))
        #expect(type("\u{04}") == [.quit])
    }

    @Test("before the greeting and after a lost link, no text is sent, and the typed line remains for the next link")
    mutating func waits() {
        _ = screen.handle(.found(Self.bench))
        #expect(type("\nHello\n") == [.connect(Self.bench)] && screen.lines.contains("Hello_"))
        _ = screen.handle(.session(.ready))
        #expect(type("\n") == [.send("Hello")] && screen.lines.contains("_"))
        _ = screen.handle(.reconnecting(reason: "the device disconnected", after: .milliseconds(500)))
        #expect(type("/toggle\n\n\n") == [] && screen.lines.contains("/toggle_"))
        let note = "Not sent: there is no link. Press Return later, or Control-U and /disconnect."
        #expect(screen.lines.filter { $0 == note }.count == 2)  // one for each state without a link
        #expect(type("\u{15}/disconnect\n") == [.disconnect] && screen.lines.contains("_"))
        #expect(screen.lines.first == "Bench  00:AA:01:00:00:42  Connecting again in 0.5 s…")
        #expect(screen.lines.contains("Lost the link: the device disconnected."))
        _ = screen.handle(.ended(reason: nil, undelivered: 0))
        #expect(screen.lines == ["Name filter: _", "", "", Self.keys])
    }

    @Test("a text and a name of another machine cannot control the terminal")
    mutating func escapes() {
        _ = screen.handle(.found(Self.device(42, "\u{1B}[2JX")))
        #expect(screen.lines.contains { $0.hasPrefix("> \\u{1B}[2JX  ") })
        _ = type("\n")
        _ = screen.handle(.session(.ready))
        _ = screen.handle(.session(.text("a\nb\u{9B}2J\u{202E}")))
        #expect(screen.lines.contains("< a\\nb\\u{009B}2J\\u{202E}"))
    }

    @Test("the last events of a conversation are visible, with the progress of the image")
    mutating func shows() {
        connect()
        for number in 1...20 { _ = screen.handle(.session(.text("\(number)"))) }
        _ = screen.handle(.session(.progress(received: 512, size: 1024)))
        #expect(screen.lines.count == 15 && screen.lines[2] == "< 13" && screen.lines[9] == "< 20")
        #expect(screen.lines[10] == "Image: 50 % of 1024 bytes")
        let image = PNG.generate(size: 1024)
        _ = screen.handle(.session(.image(image, SHA256.digest(of: image))))
        _ = screen.handle(.saved(file: "image.png"))
        #expect(!screen.lines.contains("Image: 50 % of 1024 bytes") && screen.lines[9] == "Saved in image.png.")
        _ = screen.handle(.session(.refused(.noImage)))
        #expect(screen.lines[9] == "Refused: The peripheral has no image.")
        _ = screen.handle(.ended(reason: "the device was not found", undelivered: 2))
        #expect(screen.lines.prefix(2) == ["the device was not found", "Messages not confirmed: 2."])
    }

    @Test("after a failed transfer, the progress disappears, and the conversation continues")
    mutating func failedTransfer() {
        for event in [.imageFailed(.wrongDigest), .imageFailed(.noAnswer), .refused(.noImage)] as [CentralSession.Event]
        {
            screen = CentralScreen()
            connect()
            _ = screen.handle(.session(.progress(received: 512, size: 1024)))
            #expect(screen.lines.contains("Image: 50 % of 1024 bytes"))
            _ = screen.handle(.session(event))
            #expect(!screen.lines.contains { $0.hasPrefix("Image: ") } && screen.lines.count == 8)
            #expect(type("text\n/image\n") == [.send("text"), .getImage])
        }
    }

    @Test("after each failure, the screen shows the reason, and no state of the ended conversation")
    mutating func failures() {
        connect()
        for event in [.failed("Not sent."), .failed("Cannot write image.png: No space left.")] as [CentralScreen.Event]
        {
            _ = screen.handle(event)
        }
        #expect(screen.lines.contains("Not sent.") && screen.lines.contains("Cannot write image.png: No space left."))
        _ = screen.handle(.session(.toggle(true)))
        _ = screen.handle(.session(.progress(received: 512, size: 1024)))
        _ = type("abc")
        _ = screen.handle(.reconnecting(reason: "the device disconnected", after: .seconds(1)))
        _ = screen.handle(.ended(reason: "the device was not found", undelivered: 0))
        #expect(screen.lines == ["the device was not found", "Name filter: _", "", "", Self.keys])
        _ = screen.handle(.failed("the adapter is off"))
        #expect(screen.lines.prefix(2) == ["the device was not found", "the adapter is off"])
        // The next device: no text, no toggle and no progress of the earlier one.
        _ = screen.handle(.found(Self.lamp))
        _ = type("\n")
        _ = screen.handle(.session(.ready))
        #expect(
            screen.lines == [
                "Lamp  00:AA:01:00:00:43  toggle off", "", "Hello → Hello ack", "", "_", "",
                "/toggle   /image   /disconnect   Control-D: quit",
            ])
    }
}

@Suite("UART: waits between connection attempts")
struct BackoffTests {
    @Test("the waits double up to 8 s, end after six attempts, and start again after a link of 8 s")
    func waits() {
        var backoff = Backoff()
        let all = (0..<8).map { _ in backoff.next() }
        #expect(all == [.milliseconds(500), .seconds(1), .seconds(2), .seconds(4), .seconds(8), .seconds(8), nil, nil])
        backoff.endLink(after: .seconds(8), isTransferring: false)
        #expect(backoff.next() == .milliseconds(500))
    }

    @Test(
        "a peripheral that greets, sends texts and ends the link has six attempts, also during a transfer without new bytes",
        arguments: [(.milliseconds(7999), false), (.seconds(14), true)] as [(Duration, Bool)])
    func endedAfterGreeting(time: Duration, isTransferring: Bool) {
        var backoff = Backoff()
        for _ in 0..<Backoff.attempts {
            for event in [.ready, .toggle(true), .text("a"), .refused(.malformed)] as [CentralSession.Event] {
                backoff.record(event)
            }
            backoff.endLink(after: time, isTransferring: isTransferring)
            #expect(backoff.next() != nil)
        }
        backoff.endLink(after: time, isTransferring: isTransferring)
        #expect(backoff.next() == nil)
    }

    @Test("only new bytes of the image start the waits again")
    func noProgress() {
        var backoff = Backoff()
        backoff.record(.progress(received: 500, size: 2000))
        for _ in 0..<6 {
            #expect(backoff.next() != nil)
            // The peripheral starts again at 0.
            for received in [0, 499, 500] { backoff.record(.progress(received: received, size: 2000)) }
        }
        #expect(backoff.next() == nil)
        backoff.record(.progress(received: 501, size: 2000))
        #expect(backoff.next() == .milliseconds(500))
        // The next transfer has other bytes.
        backoff.record(.imageFailed(.wrongDigest))
        _ = backoff.next()
        backoff.record(.progress(received: 1, size: 2000))
        #expect(backoff.next() == .milliseconds(500))
    }
}
