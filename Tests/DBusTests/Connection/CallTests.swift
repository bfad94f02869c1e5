import DBus
import Glibc
import Testing

@Suite struct CallTests {
    @Test func errorsKeepTheirNameAndMessage() async throws {
        try await Peer.run { connection, peer in
            do throws(DBusError) {
                _ = try await connection.call(
                    Peer.name, Peer.path, Peer.name, "Fail", ["org.bluez.Error.InProgress", "busy"])
                Issue.record("no error came")
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

    @Test func nobodyThere() async throws {
        try await TestBus.withConnection { connection, _ in
            await #expect(throws: DBusError.remote(DBusError.Name.serviceUnknown)) {
                try await connection.call("org.example.Nobody", "/", "org.example.Nobody", "M")
            }
        }
    }

    /// The bus answers for whoever dies with a call unanswered: that is not our timeout.
    @Test func theOtherSideDies() async throws {
        try await Peer.run { connection, _ in
            let answers = await connection.call([
                DBusMethodCall(Peer.name, Peer.path, Peer.name, "Never"),
                DBusMethodCall(Peer.name, Peer.path, Peer.name, "Run", ["import os; os._exit(0)"]),
            ])
            #expect(answers == [.failure(.remote(DBusError.Name.noReply)), .failure(.remote(DBusError.Name.noReply))])
        }
    }

    @Test func timeouts() async throws {
        try await Peer.run { connection, peer in
            for milliseconds in [0, 1, 50] {
                await #expect(throws: DBusError(.timedOut, "")) {
                    try await connection.call(
                        Peer.name, Peer.path, Peer.name, "Never", timeout: .milliseconds(milliseconds))
                }
            }
            // An answer that comes too late is nobody's.
            await #expect(throws: DBusError(.timedOut, "")) {
                try await connection.call(
                    Peer.name, Peer.path, Peer.name, "Run", ["await asyncio.sleep(0.05)"], timeout: .milliseconds(10))
            }
            _ = try await peer.python("await asyncio.sleep(0.1)")
            let alive = try await peer.call("Echo", 1)
            #expect(alive == [1])
        }
    }

    /// As after a suspend: the answer lies there, and the deadline is past.
    @Test func anAnswerThatCameWhileTheThreadStoodStill() async throws {
        try await Peer.run { connection, peer in
            let begun = ContinuousClock.now
            let call = Task {
                try await connection.call(
                    Peer.name, Peer.path, Peer.name, "Run", ["await asyncio.sleep(0.05)"], timeout: .seconds(1))
            }
            _ = try await peer.call("Echo")
            await standStill(connection, until: begun.advanced(by: .milliseconds(1_200)))
            _ = try await call.value
        }
    }

    private func standStill(_: isolated DBusConnection, until end: ContinuousClock.Instant) {
        while ContinuousClock.now < end { usleep(1_000) }
    }

    @Test func cancellation() async throws {
        try await Peer.run { connection, peer in
            let calls = (0..<20).map { _ in
                Task { try await connection.call(Peer.name, Peer.path, Peer.name, "Never", timeout: nil) }
            }
            // Some are on their way, some perhaps not yet.
            _ = try await peer.call("Echo")
            for call in calls { call.cancel() }
            for call in calls {
                await #expect(throws: DBusError(.cancelled, "")) { try await call.value }
            }
            let alive = try await peer.call("Echo", 1)
            #expect(alive == [1])
        }
    }

    @Test func nothingIsSentByATaskCancelledBefore() async throws {
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

    @Test func aThousandAtOnce() async throws {
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

    @Test func aBatchKeepsItsOrder() async throws {
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

    @Test func aBatchTellsEachCallsFailure() async throws {
        try await Peer.run { connection, _ in
            let answers = await connection.call(
                [
                    DBusMethodCall(Peer.name, Peer.path, Peer.name, "Echo", [1]),
                    DBusMethodCall(Peer.name, "malformed", Peer.name, "Echo"),
                    DBusMethodCall(Peer.name, Peer.path, Peer.name, "Fail", ["org.example.Error.No", ""]),
                    DBusMethodCall(Peer.name, Peer.path, Peer.name, "Never"),
                ], timeout: .seconds(2))
            #expect(
                answers == [
                    .success([1]), .failure(DBusError(.invalidArguments, "")),
                    .failure(.remote("org.example.Error.No")), .failure(DBusError(.timedOut, "")),
                ])
        }
    }

    @Test func aBatchIsCancelledAsOne() async throws {
        try await Peer.run { connection, peer in
            let never = DBusMethodCall(Peer.name, Peer.path, Peer.name, "Never")
            let batch = Task { await connection.call([never, never], timeout: nil) }
            _ = try await peer.call("Echo")
            batch.cancel()
            #expect(await batch.value == Array(repeating: .failure(DBusError(.cancelled, "")), count: 2))
        }
    }

    @Test func callsWithoutAnAnswer() async throws {
        try await Peer.run { connection, peer in
            _ = try await peer.python("scope['seen'] = []")
            for number in 0..<100 {
                try await connection.callWithoutReply(
                    Peer.name, Peer.path, Peer.name, "Run", [.string("seen.append(\(number))")])
            }
            #expect(try await peer.python("return seen == list(range(100))") == "True")
            // What cannot be delivered is not told.
            try await connection.callWithoutReply("org.example.Nobody", "/", "org.example.Nobody", "M")
            let alive = try await peer.call("Echo")
            #expect(alive == [])
        }
    }
}
