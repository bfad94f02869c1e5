import Glibc
import OTAEngine
import OTALinks
import OTATestSupport
import OTAUpdate
import Testing

@Suite("Serial transport") struct SerialTransportTests {
    static let channel = Channel(service: 1, characteristic: 2)

    private static func transport(_ path: String) throws -> SerialTransport {
        SerialTransport(try SerialAddress(parsing: path), channel: channel)
    }

    /// Sends a value over a link and returns its first `count` events, or the reason of its end.
    private static func events(_ count: Int, over transport: SerialTransport, sending value: [UInt8]) async throws
        -> (events: [LinkEvent], end: LinkError?)
    {
        try await transport.withLink { link, events in
            link.submit(.send([value], channel))
            return await events.collect(count)
        }
    }

    /// Runs the client and the device. If one of them fails, the other is cancelled.
    private static func together(
        _ client: @escaping @Sendable () async throws -> Void,
        _ device: @escaping @Sendable () async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await client() }
            group.addTask { try await device() }
            for try await _ in group {}
        }
    }

    @Test(
        "packets of 1 to 20000 bytes pass in both directions, over two links in sequence",
        arguments: [1, 86, 87, 1500, 20_000])
    func packetsGoBothWays(_ length: Int) async throws {
        let terminal = try PseudoTerminal()
        let value = (0..<length).map { UInt8(truncatingIfNeeded: $0) }
        let transport = try Self.transport(terminal.path)
        // The second client opens the port after the first one.
        for _ in 0..<2 {
            try await Self.together {
                let (events, _) = try await Self.events(1, over: transport, sending: value)
                #expect(events == [.notified(value.reversed(), Self.channel)])
            } _: {
                let received = try await terminal.device.receive()
                #expect(received == value)
                try await terminal.device.send(received.reversed())
            }
        }
    }

    @Test("the link ends with lost when the serial port disappears")
    func aPulledCableIsTheLinksEnd() async throws {
        var terminal: PseudoTerminal? = try PseudoTerminal()
        let (path, device) = (try #require(terminal?.path), try #require(terminal?.device))
        let transport = try Self.transport(path)
        async let result = Self.events(9, over: transport, sending: [1])
        #expect(try await device.receive() == [1])
        await device.close()
        terminal = nil
        let (events, end) = try await result
        #expect(events == [])
        #expect(end?.code == .lost)
    }

    @Test("a second link on a serial port in use is refused with in-use")
    func onePortIsOnesAlone() async throws {
        let terminal = try PseudoTerminal()
        let transport = try Self.transport(terminal.path)
        let error = try await transport.withLink { _, _ in
            await #expect(throws: LinkError(.inUse, "")) { try await transport.withLink { _, _ in } }
        }
        #expect(error?.detail == "another program uses the serial port \(terminal.path)")
    }

    /// A starting process has copies of all open descriptors for a moment.
    @Test("a copied descriptor does not keep the serial port locked after the link ends")
    func aCopyDoesNotKeepThePort() async throws {
        let terminal = try PseudoTerminal()
        let transport = try Self.transport(terminal.path)
        let copies = try await transport.withLink { _, _ in Self.copies(of: terminal.path) }
        defer { copies.forEach { _ = close($0) } }
        // One of the two is the end that the pseudo-terminal keeps open.
        #expect(copies.count == 2)
        try await transport.withLink { _, _ in }
    }

    /// A copy of each descriptor of this process that refers to this file.
    private static func copies(of path: String) -> [CInt] {
        (0..<getdtablesize()).filter { descriptor in
            var target = [UInt8](repeating: 0, count: path.utf8.count + 1)
            let count = readlink("/proc/self/fd/\(descriptor)", &target, target.count)
            return count >= 0 && target[..<count].elementsEqual(path.utf8)
        }.map { dup($0) }
    }

    /// `TIOCGEXCL` of Linux: the ioctl request that reads the state of TIOCEXCL.
    private static let getExclusive: UInt = 0x8004_5440

    /// With TIOCEXCL, the terminal would stay closed to other programs after this program is killed, because its other end is open.
    @Test("a pseudo-terminal does not become exclusive, also through a symbolic link", arguments: [false, true])
    func aLinkedPort(isLinked: Bool) async throws {
        let terminal = try PseudoTerminal()
        let link = "/tmp/otaflash-\(getpid())-\(UInt64.random(in: 0 ... .max))"
        try #require(symlink(terminal.path, link) == 0)
        defer { _ = unlink(link) }
        try await Self.transport(isLinked ? link : terminal.path).withLink { _, _ in
            let port = open(terminal.path, O_RDWR | O_NOCTTY)
            defer { _ = close(port) }
            var isExclusive: CInt = -1
            #expect(ioctl(port, Self.getExclusive, &isExclusive) == 0 && isExclusive == 0)
        }
    }

    /// The header of a request for the device's buffers and of its answer (SMP version 2).
    private static let query: [UInt8] = [0x08, 0, 0, 1, 0, 0, 0, 6, 0xA0]
    private static let answer: [UInt8] = [0x09, 0, 0, 2, 0, 0, 0, 6, 0xBF, 0xFF]

    /// Without `raw`: a device with this framing takes the packets in other framings for a long packet, and the virtual device has no time
    /// limit for it.
    @Test(
        "the framing of a device is detected, and the next link starts with it",
        arguments: [(SerialFraming.console, 1), (.rawCOBS, 3)])
    func theFramingIsDetected(_ framing: SerialFraming, queries: Int) async throws {
        let terminal = try PseudoTerminal(framing: framing)
        let transport = try Self.transport(terminal.path)
        // Two queries are for a console, and the third is in a COBS frame. The second link needs one query.
        for queries in [queries, 1] {
            try await Self.together {
                try await transport.withLink { link, events in
                    link.submit(.send(Array(repeating: Self.query, count: queries), Self.channel))
                    let received = await events.collect(1)
                    #expect(received.0 == [LinkEvent.notified(Self.answer, Self.channel)])
                }
            } _: {
                #expect(try await terminal.device.receive() == Self.query)
                try await terminal.device.send(Self.answer)
            }
        }
    }

    @Test("the serial port is set to raw mode and the baud rate, and keeps DTR when it closes")
    func thePortIsRawAndKeepsDTR() async throws {
        let terminal = try PseudoTerminal()
        try await Self.transport(terminal.path + "?baud=9600").withLink { _, _ in }
        let port = open(terminal.path, O_RDWR | O_NOCTTY)
        defer { _ = close(port) }
        var settings = termios()
        try #require(tcgetattr(port, &settings) == 0)
        #expect(settings.c_cflag & tcflag_t(HUPCL) == 0)
        #expect(settings.c_cflag & tcflag_t(CSIZE | PARENB | CSTOPB) == tcflag_t(CS8))
        #expect(settings.c_lflag & tcflag_t(ICANON | ECHO | ISIG) == 0)
        #expect(cfgetospeed(&settings) == speed_t(B9600))
    }

    @Test(
        "a missing path is refused with no-such-device, and a file that is not a serial port with unavailable",
        arguments: [("/dev/no-such-port", LinkError.Code.noSuchDevice), ("/dev/null", .unavailable)])
    func whatIsNoPort(_ path: String, _ code: LinkError.Code) async throws {
        let transport = try Self.transport(path)
        await #expect(throws: LinkError(code, "")) { try await transport.withLink { _, _ in } }
    }
}
