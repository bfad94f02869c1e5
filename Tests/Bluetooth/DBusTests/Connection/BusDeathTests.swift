import DBus
import Glibc
import Testing

/// The bus is killed with SIGKILL. Every waiting operation must end at once. A failure is a test that does not end.
@Suite("Death of the bus")
struct BusDeathTests {
    @Test("pending calls and batches end with disconnected when the bus dies")
    func midCall() async throws {
        try await Peer.run { connection, peer in
            let calls = (0..<50).map { _ in
                Task { try await connection.call(Peer.name, Peer.path, Peer.name, "Never", timeout: nil) }
            }
            let never = DBusMethodCall(Peer.name, Peer.path, Peer.name, "Never")
            let batch = Task { await connection.call([never, never], timeout: nil) }
            _ = try await peer.call("Echo")
            try await peer.killBus(connection)
            for call in calls {
                await #expect(throws: DBusError(.disconnected, "")) { try await call.value }
            }
            #expect(await batch.value == Array(repeating: .failure(DBusError(.disconnected, "")), count: 2))
        }
    }

    @Test("streams throw disconnected once and then end when the bus dies")
    func midStream() async throws {
        try await Peer.run { connection, peer in
            var signals = try await connection.signals(matching: DBusMatch()).makeAsyncIterator()
            var owners = try await connection.owners(of: Peer.name).makeAsyncIterator()
            var objects = try await connection.managedObjects(of: "org.example.Nobody").makeAsyncIterator()
            _ = try await owners.next()
            _ = try await objects.next()
            try await peer.killBus(connection)
            await #expect(throws: DBusError(.disconnected, "")) { while try await signals.next() != nil {} }
            await #expect(throws: DBusError(.disconnected, "")) { while try await owners.next() != nil {} }
            await #expect(throws: DBusError(.disconnected, "")) { while try await objects.next() != nil {} }
            // The error is thrown once; then the stream ends.
            #expect(try await signals.next() == nil)
        }
    }

    @Test("a running method handler is cancelled when the bus dies")
    func handlersAreCancelled() async throws {
        try await Peer.run { connection, peer in
            let (ended, feed) = AsyncStream.makeStream(of: Bool.self)
            let method = DBusMethod("Wait") { _ in
                // This sleep ends only by cancellation, which is the event under test.
                try? await Task.sleep(for: .seconds(3600))
                feed.yield(Task.isCancelled)
                return []
            }
            try await connection.export("/", [DBusInterface("org.example.Slow", methods: [method])])
            _ = try await peer.python(
                """
                async def wait():
                    try: await call(arguments[0], '/', 'org.example.Slow', 'Wait')
                    except EOFError: pass  # the bus is dead
                asyncio.get_running_loop().create_task(wait())
                await call(arguments[0], '/', 'org.freedesktop.DBus.Peer', 'Ping')
                """, .string(connection.uniqueName))
            try await peer.killBus(connection)
            var iterator = ended.makeAsyncIterator()
            #expect(await iterator.next() == true)
        }
    }

    @Test("every operation on a dead connection throws disconnected, and close may be called twice")
    func afterwards() async throws {
        try await Peer.run { connection, peer in
            try await connection.export("/a")
            try await peer.killBus(connection)
            let gone = DBusError(.disconnected, "")
            await #expect(throws: gone) { try await peer.call("Never") }
            await #expect(throws: gone) { try await connection.callWithoutReply("a.b", "/", "a.b", "M") }
            await #expect(throws: gone) { try await connection.signals(matching: DBusMatch()) }
            await #expect(throws: gone) { try await connection.owners(of: "a.b") }
            await #expect(throws: gone) { try await connection.requestName("a.b") }
            await #expect(throws: gone) { try await connection.export("/") }
            await #expect(throws: gone) { try await connection.emit("/", "a.b", "S") }
            await connection.unexport("/a")
            await connection.close()
            await connection.close()
        }
    }
}

extension Peer {
    /// Kills the bus. Returns when the connection has ended.
    func killBus(_ connection: DBusConnection) async throws {
        let pid = try await connection.call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetConnectionUnixProcessID",
            ["org.freedesktop.DBus"]
        ).require(0, \.uint32)
        var stream = try await connection.signals(matching: DBusMatch(member: "Nothing")).makeAsyncIterator()
        kill(pid_t(pid), SIGKILL)
        await #expect(throws: DBusError(.disconnected, "")) { try await stream.next() }
    }
}
