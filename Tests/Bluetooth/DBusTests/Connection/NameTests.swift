import DBus
import Testing

@Suite("D-Bus names and their owners")
struct NameTests {
    @Test("owners reports each start and end of a name's owner")
    func ownersComeAndGo() async throws {
        try await TestBus.withConnection { connection, bus in
            var owners = try await connection.owners(of: Peer.name).makeAsyncIterator()
            #expect(try await owners.next() == .some(nil))
            for _ in 0..<2 {
                let unique = try await Peer.run(on: bus) {
                    try await Peer(connection: connection).python("return bus.unique_name")
                }
                #expect(try await owners.next() == unique)
                #expect(try await owners.next() == .some(nil))
            }
        }
    }

    @Test("owners starts with the current owner")
    func anOwnerThatWasThereBefore() async throws {
        try await Peer.run { connection, peer in
            let unique = try await peer.python("return bus.unique_name")
            var owners = try await connection.owners(of: Peer.name).makeAsyncIterator()
            #expect(try await owners.next() == unique)
            var again = try await connection.owners(of: Peer.name).makeAsyncIterator()
            #expect(try await again.next() == unique)
        }
    }

    @Test("a subscription by name delivers the signals of the current owner only")
    func signalsOfAChangingOwner() async throws {
        try await TestBus.withConnection { connection, bus in
            let signals = try await connection.signals(matching: DBusMatch(sender: Peer.name, member: "Hop"))
            // This rule makes the bus also deliver the signals of other senders.
            let all = try await connection.signals(matching: DBusMatch(member: "Hop"))
            try await DBusConnection.withConnection(.address(bus.address)) { stranger in
                var iterator = signals.makeAsyncIterator()
                for round in Int32(0)..<2 {
                    try await stranger.emit("/", "org.example.Hops", "Hop", [-1])
                    try await Peer.run(on: bus) {
                        _ = try await Peer(connection: connection).python(
                            "await bus.send(Message.new_signal('/', 'org.example.Hops', 'Hop', 'i', [\(round)]))")
                    }
                    #expect(try await iterator.next()?.arguments == [.int32(round)])
                }
            }
            var iterator = all.makeAsyncIterator()
            for expected: Int32 in [-1, 0, -1, 1] {
                #expect(try await iterator.next()?.arguments == [.int32(expected)])
            }
        }
    }

    @Test("a name is requested, refused if taken, and released")
    func namesOfOurOwn() async throws {
        try await Peer.run { connection, peer in
            try await connection.requestName("org.example.Ours")
            try await connection.requestName("org.example.Ours")
            let owner = try await peer.python("return await bus.introspect('org.example.Ours', '/') and 'there'")
            #expect(owner == "there")
            await #expect(throws: DBusError(.nameTaken, "")) { try await connection.requestName(Peer.name) }
            await #expect(throws: DBusError(.nameTaken, "")) {
                try await connection.requestName(Peer.name, replacing: true)
            }
            try await connection.releaseName("org.example.Ours")
            #expect(
                try await peer.python("return str(await bus.request_name('org.example.Ours'))").contains(
                    "PRIMARY_OWNER"))
            try await connection.releaseName("org.example.Ours")
        }
    }

    @Test("a replaceable name is taken over only with replacing")
    func aReplaceableName() async throws {
        try await TestBus.withConnection { first, bus in
            try await DBusConnection.withConnection(.address(bus.address)) { second in
                try await first.requestName("org.example.Ours", isReplaceable: true)
                await #expect(throws: DBusError(.nameTaken, "")) { try await second.requestName("org.example.Ours") }
                try await second.requestName("org.example.Ours", replacing: true)
                var owners = try await first.owners(of: "org.example.Ours").makeAsyncIterator()
                #expect(try await owners.next() == second.uniqueName)
            }
        }
    }
}
