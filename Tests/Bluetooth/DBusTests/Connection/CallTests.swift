import DBus
import Glibc
import Testing

@Suite("D-Bus method calls")
struct CallTests {
    @Test("an error reply keeps its name and message")
    func errorsKeepTheirNameAndMessage() async throws {
        try await Peer.run { connection, peer in
            do throws(DBusError) {
                _ = try await connection.call(
                    Peer.name, Peer.path, Peer.name, "Fail", ["org.bluez.Error.InProgress", "busy"])
                Issue.record("the call threw no error")
            } catch {
                #expect(error == .remote("org.bluez.Error.InProgress"))
                #expect(error.message == "busy")
                #expect(error != .remote("org.bluez.Error.Failed"))
                #expect(error != DBusError(.timedOut, "busy"))
            }
            let alive = try await peer.call("Echo")
            #expect(alive == [])
        }
    }

    @Test("a call to a name without an owner throws ServiceUnknown")
    func nobodyThere() async throws {
        try await TestBus.withConnection { connection, _ in
            await #expect(throws: DBusError.remote(DBusError.Name.serviceUnknown)) {
                try await connection.call("org.example.Nobody", "/", "org.example.Nobody", "M")
            }
        }
    }

    /// The bus itself sends this error reply, so the call does not wait for its timeout.
    @Test("a call throws NoReply when the called program exits")
    func theOtherSideDies() async throws {
        try await Peer.run { connection, _ in
            let answers = await connection.call([
                DBusMethodCall(Peer.name, Peer.path, Peer.name, "Never"),
                DBusMethodCall(Peer.name, Peer.path, Peer.name, "Run", ["import os; os._exit(0)"]),
            ])
            #expect(answers == [.failure(.remote(DBusError.Name.noReply)), .failure(.remote(DBusError.Name.noReply))])
        }
    }

    @Test("a call without a reply times out, and a late reply is ignored")
    func timeouts() async throws {
        try await Peer.run { connection, peer in
            for milliseconds in [0, 1, 50] {
                await #expect(throws: DBusError(.timedOut, "")) {
                    try await connection.call(
                        Peer.name, Peer.path, Peer.name, "Never", timeout: .milliseconds(milliseconds))
                }
            }
            // The reply arrives after the timeout. The connection must discard it.
            await #expect(throws: DBusError(.timedOut, "")) {
                try await connection.call(
                    Peer.name, Peer.path, Peer.name, "Run", ["await asyncio.sleep(0.05)"], timeout: .milliseconds(10))
            }
            // The peer replies to this call after it has sent the late reply.
            _ = try await peer.python("await asyncio.sleep(0.1)")
            let alive = try await peer.call("Echo", 1)
            #expect(alive == [1])
        }
    }

    /// This also happens after a suspend: the reply is in the socket, and the deadline has passed.
    @Test("a reply that arrived in time counts, even if the thread was blocked past the deadline")
    func anAnswerThatCameWhileTheThreadStoodStill() async throws {
        try await Peer.run { connection, peer in
            let limit = try await peer.usualLimit()
            let begun = ContinuousClock.now
            let call = Task {
                try await connection.call(
                    Peer.name, Peer.path, Peer.name, "Run", ["await asyncio.sleep(0.05)"], timeout: limit)
            }
            _ = try await peer.call("Echo")
            await standStill(connection, until: begun.advanced(by: limit + .milliseconds(200)))
            _ = try await call.value
        }
    }

    /// Blocks the connection's thread. This is the condition under test, so it cannot wait for an event.
    private func standStill(_: isolated DBusConnection, until end: ContinuousClock.Instant) {
        while ContinuousClock.now < end { usleep(1_000) }
    }

    @Test("a cancelled call throws cancelled, and the connection stays usable")
    func cancellation() async throws {
        try await Peer.run { connection, peer in
            let calls = (0..<20).map { _ in
                Task { try await connection.call(Peer.name, Peer.path, Peer.name, "Never", timeout: nil) }
            }
            // Some calls are already sent, others perhaps not.
            _ = try await peer.call("Echo")
            for call in calls { call.cancel() }
            for call in calls {
                await #expect(throws: DBusError(.cancelled, "")) { try await call.value }
            }
            let alive = try await peer.call("Echo", 1)
            #expect(alive == [1])
        }
    }

    @Test("a task that is already cancelled sends no call")
    func nothingIsSentByATaskCancelledBefore() async throws {
        try await Peer.run { connection, peer in
            _ = try await peer.python("scope['touched'] = 0")
            let call = Task {
                while !Task.isCancelled { await Task.yield() }
                return try await connection.call(Peer.name, Peer.path, Peer.name, "Run", ["scope['touched'] = 1"])
            }
            call.cancel()
            await #expect(throws: DBusError(.cancelled, "")) { try await call.value }
            #expect(try await peer.python("return touched") == "0")
        }
    }

    @Test("1000 concurrent calls each get their own reply")
    func aThousandAtOnce() async throws {
        try await Peer.run { connection, _ in
            try await withThrowingTaskGroup { group in
                for number in Int32(0)..<1000 {
                    group.addTask {
                        let echoed = try await connection.call(
                            Peer.name, Peer.path, Peer.name, "Echo", [.int32(number)])
                        #expect(echoed == [.int32(number)])
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    @Test("a batch of calls is sent and answered in order")
    func aBatchKeepsItsOrder() async throws {
        try await Peer.run { connection, peer in
            _ = try await peer.python("scope['seen'] = []")
            let calls = (0..<1000).map { number in
                DBusMethodCall(Peer.name, Peer.path, Peer.name, "Run", [.string("seen.append(\(number))")])
            }
            let answers = await connection.call(calls)
            #expect(answers.count == 1000)
            for answer in answers { #expect(try answer.get() == ["None"]) }
            #expect(try await peer.python("return seen == list(range(1000))") == "True")
            #expect(await connection.call([DBusMethodCall]()).isEmpty)
        }
    }

    @Test("a batch reports the result of each call separately")
    func aBatchTellsEachCallsFailure() async throws {
        try await Peer.run { connection, peer in
            let answers = await connection.call(
                [
                    DBusMethodCall(Peer.name, Peer.path, Peer.name, "Echo", [1]),
                    DBusMethodCall(Peer.name, "malformed", Peer.name, "Echo"),
                    DBusMethodCall(Peer.name, Peer.path, Peer.name, "Fail", ["org.example.Error.No", ""]),
                    DBusMethodCall(Peer.name, Peer.path, Peer.name, "Never"),
                ], timeout: try await peer.usualLimit())
            #expect(
                answers == [
                    .success([1]), .failure(DBusError(.invalidArguments, "")),
                    .failure(.remote("org.example.Error.No")), .failure(DBusError(.timedOut, "")),
                ])
        }
    }

    @Test("cancellation ends all calls of a batch")
    func aBatchIsCancelledAsOne() async throws {
        try await Peer.run { connection, peer in
            let never = DBusMethodCall(Peer.name, Peer.path, Peer.name, "Never")
            let batch = Task { await connection.call([never, never], timeout: nil) }
            _ = try await peer.call("Echo")
            batch.cancel()
            #expect(await batch.value == Array(repeating: .failure(DBusError(.cancelled, "")), count: 2))
        }
    }

    @Test("calls without a reply arrive in order, and an undeliverable call is ignored")
    func callsWithoutAnAnswer() async throws {
        try await Peer.run { connection, peer in
            _ = try await peer.python("scope['seen'] = []")
            for number in 0..<100 {
                try await connection.callWithoutReply(
                    Peer.name, Peer.path, Peer.name, "Run", [.string("seen.append(\(number))")])
            }
            #expect(try await peer.python("return seen == list(range(100))") == "True")
            // The bus drops this call without an error.
            try await connection.callWithoutReply("org.example.Nobody", "/", "org.example.Nobody", "M")
            let alive = try await peer.call("Echo")
            #expect(alive == [])
        }
    }
}
