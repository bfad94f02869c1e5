import DBus
import Testing

@Suite struct CallTests {
    @Test func echoes() async throws {
        try await Peer.run { connection, peer in
            let echoed = try await peer.call("Echo", "hello", 5)
            #expect(echoed == ["hello", 5])
            #expect(try await peer.python("return 6 * 7") == "42")
            #expect(await connection.uniqueName.hasPrefix(":1."))
        }
    }

    @Test func signals() async throws {
        try await Peer.run { connection, peer in
            let signals = try await connection.signals(matching: DBusMatch(sender: Peer.name, member: "Hop"))
            _ = try await peer.python(
                "await bus.send(Message.new_signal('/a/b', 'org.example.Hops', 'Hop', 's', ['up']))")
            var iterator = signals.makeAsyncIterator()
            let signal = try #require(try await iterator.next())
            #expect(signal.path == "/a/b")
            #expect(signal.arguments == ["up"])
        }
    }
}
