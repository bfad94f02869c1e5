import DBus
import Testing

@Suite("D-Bus signals")
struct SignalTests {
    @Test("signals arrive complete and in order")
    func signalsCome() async throws {
        try await Peer.run { connection, peer in
            let signals = try await connection.signals(
                matching: DBusMatch(sender: Peer.name, interface: "org.example.Hops", member: "Hop"))
            _ = try await peer.python(
                "await emit(('/a/b', 'org.example.Hops', 'Hop', 'is', [number, 'up']) for number in range(500))")
            let unique = try await peer.python("return bus.unique_name")
            var expected: Int32 = 0
            for try await signal in signals {
                #expect(signal.sender == unique)
                #expect(signal.path == "/a/b")
                #expect(signal.interface == "org.example.Hops")
                #expect(signal.member == "Hop")
                #expect(signal.arguments == [.int32(expected), "up"])
                expected += 1
                if expected == 500 { break }
            }
            #expect(expected == 500)
        }
    }

    /// Match rules, each with the numbers of the matching signals. The peer sends all signals, in the order of the numbers.
    static let matches: [(DBusMatch, [Int])] = [
        (DBusMatch(), [0, 1, 2, 3, 4, 5, 6]),
        (DBusMatch(sender: Peer.name), [0, 1, 2, 3, 4, 5, 6]),
        (DBusMatch(sender: "org.example.Nobody"), []),
        (DBusMatch(path: "/a"), [0, 3, 4, 5, 6]),
        (DBusMatch(pathNamespace: "/a"), [0, 1, 3, 4, 5, 6]),
        (DBusMatch(pathNamespace: "/"), [0, 1, 2, 3, 4, 5, 6]),
        (DBusMatch(interface: "org.example.Two"), [3]),
        (DBusMatch(member: "N"), [4]),
        (DBusMatch(firstArgument: "it's"), [5]),
        (DBusMatch(firstArgument: "other"), [0, 1, 2, 3, 4]),
        (
            DBusMatch(sender: Peer.name, path: "/a", interface: "org.example.One", member: "M", firstArgument: "other"),
            [0]
        ),
    ]

    /// With one rule, the bus filters the signals. With several rules, the connection must filter them again.
    @Test("a match rule selects the same signals alone and together with other rules", arguments: [true, false])
    func matchRules(together: Bool) async throws {
        try await Peer.run { connection, peer in
            let send = """
                for number, (path, interface, member, signature, argument) in enumerate([
                    ('/a', 'One', 'M', 's', 'other'), ('/a/b', 'One', 'M', 's', 'other'),
                    ('/ab', 'One', 'M', 's', 'other'), ('/a', 'Two', 'M', 's', 'other'),
                    ('/a', 'One', 'N', 's', 'other'), ('/a', 'One', 'M', 's', "it's"), ('/a', 'One', 'M', 'o', '/it')]):
                    await bus.send(Message.new_signal(
                        path, 'org.example.' + interface, member, signature + 'i', [argument, number]))
                """
            var streams: [DBusStream<DBusSignal>] = []
            for (match, expected) in Self.matches {
                let stream = try await connection.signals(matching: match)
                streams.append(stream)
                if !together {
                    _ = try await peer.python(send)
                    try await Self.expect(expected, in: stream, on: connection)
                    streams = []
                }
            }
            guard together else { return }
            _ = try await peer.python(send)
            for ((_, expected), stream) in zip(Self.matches, streams) {
                try await Self.expect(expected, in: stream, on: connection)
            }
        }
    }

    /// Checks the numbers of the next signals in the stream.
    private static func expect(
        _ expected: [Int], in stream: DBusStream<DBusSignal>, on connection: DBusConnection
    ) async throws {
        var found: [Int] = []
        var iterator = stream.makeAsyncIterator()
        while found.count < expected.count, let signal = try await iterator.next() {
            if let number = signal.arguments.last?.integer, signal.interface.hasPrefix("org.example") {
                found.append(number)
            }
        }
        #expect(found == expected)
    }

    @Test("a rule that the bus refuses throws the error of the bus")
    func refusedByTheBus() async throws {
        try await TestBus.withConnection { connection, _ in
            await #expect(throws: DBusError.remote("org.freedesktop.DBus.Error.MatchRuleInvalid")) {
                try await connection.signals(matching: DBusMatch(path: "/a", pathNamespace: "/b"))
            }
        }
    }

    /// The bus reports the number of rules of a connection.
    @Test("a rule is removed from the bus when its stream is released or cancelled")
    func rulesAreTakenBack() async throws {
        try await TestBus.withConnection { connection, _ in
            let before = try await Self.rules(of: connection)
            for round in 0..<5 {
                var streams: [DBusStream<DBusSignal>] = []
                for _ in 0..<5 { streams.append(try await connection.signals(matching: DBusMatch(member: "M"))) }
                let reading = Task { [stream = streams[0]] in
                    for try await _ in stream {}
                    return true
                }
                #expect(try await Self.rules(of: connection) == before + 5)
                reading.cancel()
                #expect(
                    try await reading.value,
                    "the stream of a cancelled reader must end without an error (round \(round))")
                streams = []
                #expect(try await Self.rules(of: connection) == before)
            }
        }
    }

    private static func rules(of connection: DBusConnection) async throws -> Int {
        let name = await connection.uniqueName
        let reply = try await connection.call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus.Debug.Stats", "GetConnectionStats",
            [.string(name)])
        return try reply.require(0, \.properties)["MatchRules"]?.integer ?? -1
    }

    @Test("calls get replies during a flood of signals, and no signal is lost")
    func callsDuringAFlood() async throws {
        try await Peer.run { connection, peer in
            let signals = try await connection.signals(matching: DBusMatch(interface: "org.example.Flood"))
            _ = try await peer.python(
                """
                asyncio.get_running_loop().create_task(emit(
                    ('/a', 'org.example.Flood', 'Drop', 'i', [number]) for number in range(5000)))
                """)
            for number in Int32(0)..<50 {
                let echoed = try await peer.call("Echo", .int32(number))
                #expect(echoed == [.int32(number)])
            }
            var count: Int32 = 0
            for try await signal in signals {
                #expect(signal.arguments == [.int32(count)])
                count += 1
                if count == 5000 { break }
            }
        }
    }
}
