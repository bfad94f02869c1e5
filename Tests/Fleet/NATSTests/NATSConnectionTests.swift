import DescriptorIO
import Glibc
import NATS
import NATSTestSupport
import Testing

@Suite("Connections to NATS servers")
struct NATSConnectionTests {
    @Test(
        "a request gets its own reply, also among 500 requests at the same time", arguments: TestServer.Version.allCases
    )
    func requests(_ version: TestServer.Version) async throws {
        try await TestServer.run(version) { server in
            try await withEcho(server) { client in
                let replies = try await withThrowingTaskGroup(of: (UInt16, [UInt8]).self) { group in
                    for number in UInt16(0)..<500 {
                        group.addTask { (number, try await client.request("echo", number.bytes).payload) }
                    }
                    return try await group.reduce(into: []) { $0.append($1) }
                }
                #expect(replies.count == 500 && replies.allSatisfy { $0.0.bytes == $0.1 })
            }
        }
    }

    @Test("headers and payloads arrive unchanged")
    func headers() async throws {
        try await TestServer.run(.newest) { server in
            try await NATSClient.withClient(server.options) { client in
                var messages = try await client.subscribe("a.*").makeAsyncIterator()
                let payload = [UInt8]((0...255).map { UInt8($0) })
                try await client.publish("a.b", headers: ["Name": "a value: with a colon"], payload)
                let message = try #require(try await messages.next())
                #expect(message.subject == "a.b" && message.payload == payload && message.reply == nil)
                #expect(message.headers["Name"] == "a value: with a colon" && message.headers["name"] == nil)
                await #expect(throws: NATSError(.invalidArguments, "")) {
                    try await client.publish("a.b", headers: ["Name": "a\r\nb: c"])
                }
            }
        }
    }

    @Test("a request without an answer times out, and one without a responder fails at once")
    func timeout() async throws {
        try await TestServer.run(.debian) { server in
            try await NATSClient.withClient(server.options) { client in
                await #expect(throws: NATSError(.noResponders, "")) { _ = try await client.request("nobody") }
                let silent = try await client.subscribe("silent")
                await #expect(throws: NATSError(.timedOut, "")) {
                    _ = try await client.request("silent", timeout: .milliseconds(60))
                }
                _ = silent
            }
        }
    }

    @Test("a cancelled request ends at once, and its late reply is ignored")
    func cancellation() async throws {
        try await TestServer.run(.debian) { server in
            try await NATSClient.withClient(server.options) { client in
                var messages = try await client.subscribe("slow").makeAsyncIterator()
                let task = Task { try await client.request("slow", timeout: .seconds(60)) }
                let request = try #require(try await messages.next())
                task.cancel()
                await #expect(throws: NATSError(.cancelled, "")) { _ = try await task.value }
                try await client.publish(try #require(request.reply), [1])
                await #expect(throws: NATSError(.noResponders, "")) { _ = try await client.request("nobody") }
            }
        }
    }

    @Test(
        "requests fail while the server is away, nothing of them arrives later, and they succeed after its restart",
        arguments: TestServer.Version.allCases)
    func restart(_ version: TestServer.Version) async throws {
        try await TestServer.run(version) { server in
            var options = server.options
            options.requestTimeout = .seconds(10)
            try await NATSClient.withClient(options) { client in
                let bucket = try KeyValueBucket("devices", client)
                try await bucket.create()
                let first = try await bucket.write([1], "a", expecting: 0)
                var silent = try await client.subscribe("silent").makeAsyncIterator()
                let waiting = Task { try await client.request("silent", timeout: .seconds(60)) }
                _ = try await silent.next()
                var states = client.states().makeAsyncIterator()
                #expect(await states.next() == .connected)

                await server.kill()
                #expect(await states.next() == .reconnecting)
                await #expect(throws: NATSError(.disconnected, "")) { _ = try await waiting.value }
                for value: UInt8 in [10, 11] {
                    await #expect(throws: NATSError(.notConnected, "")) {
                        _ = try await bucket.write([value], "a", expecting: first)
                    }
                    await #expect(throws: NATSError(.notConnected, "")) {
                        try await client.publish("$KV.devices.a", [value])
                    }
                }

                try await server.start()
                #expect(await states.next() == .connected)
                let present = try await untilReady { try await bucket.get("a") }
                #expect(present?.value == [1] && present?.revision == first)
                _ = try await bucket.write([2], "a", expecting: first)
            }
        }
    }

    @Test("a hung server is noticed by the missing answers to pings")
    func hungServer() async throws {
        try await TestServer.run(.newest) { server in
            var options = server.options
            options.pingInterval = .seconds(1)
            options.connectTimeout = .milliseconds(500)
            try await NATSClient.withClient(options) { client in
                let bucket = try KeyValueBucket("devices", client)
                try await bucket.create()
                var states = client.states().makeAsyncIterator()
                #expect(await states.next() == .connected)
                server.pause()
                await #expect(throws: NATSError(.timedOut, "")) {
                    _ = try await client.request("$KV.devices.a", [1], timeout: .milliseconds(60))
                }
                let waiting = Task { try await client.request("$KV.devices.a", [2], timeout: .seconds(60)) }
                #expect(await states.next() == .reconnecting)
                let error = await #expect(throws: NATSError.self) { _ = try await waiting.value }
                // The task may have started after the loss of the connection.
                #expect(error?.code == .disconnected || error?.code == .notConnected)
                server.resume()
                #expect(await states.next() == .connected)
                _ = try await untilReady { try await bucket.get("a") }
            }
        }
    }

    @Test("a request keeps its time limit while a write blocks, and is not sent after it has ended")
    func blockedWrite() async throws {
        try await TestServer.run(.newest) { server in
            try await NATSClient.withClient(server.options) { observer in
                var options = server.options
                options.writeDeadline = .seconds(60)
                let observed = try await observer.subscribe("b")
                await #expect(throws: NATSError(.noResponders, "")) { _ = try await observer.request("nobody") }
                try await NATSClient.withClient(options) { client in
                    server.pause()
                    // These messages fill the buffers of the socket. The 30 MB exceed them.
                    let writer = Task {
                        for _ in 0..<60 { try await client.publish("a", Array(repeating: 0, count: 512 * 1024)) }
                    }
                    for number in UInt8(1)...10 {
                        await #expect(throws: NATSError(.timedOut, "")) {
                            _ = try await client.request("b", [number], timeout: .milliseconds(100))
                        }
                    }
                    server.resume()
                    try await writer.value
                    try await client.publish("b", [99])
                }
                var received: [UInt8] = []
                for try await message in observed {
                    received += message.payload
                    if message.payload == [99] { break }
                }
                // The first requests can be sent before the buffers are full.
                #expect(received.last == 99 && !received.contains(10))
            }
        }
    }

    @Test("a closed connection ends requests and subscriptions with closed")
    func close() async throws {
        try await TestServer.run(.debian) { server in
            let client = try await NATSClient.open(server.options)
            var messages = try await client.subscribe("silent").makeAsyncIterator()
            let waiting = Task { try await client.request("silent", timeout: .seconds(60)) }
            _ = try await messages.next()
            await client.close()
            await #expect(throws: NATSError(.closed, "")) { _ = try await waiting.value }
            await #expect(throws: NATSError(.closed, "")) { _ = try await messages.next() }
            await #expect(throws: NATSError(.closed, "")) { _ = try await client.request("a") }
            await #expect(throws: NATSError(.closed, "")) { try await client.publish("a") }
            await #expect(throws: NATSError(.closed, "")) { _ = try await client.subscribe("a") }
            await client.close()
        }
    }

    @Test("no server, a closed port, and malformed settings are reported")
    func open() async throws {
        await #expect(throws: NATSError(.connectionFailed, "")) {
            _ = try await NATSClient.open(NATSOptions(servers: ["nats://localhost:1"]))
        }
        for server in ["", "localhost", "http://localhost:4222", "nats://a b"] {
            await #expect(throws: NATSError(.invalidArguments, "")) {
                _ = try await NATSClient.open(NATSOptions(servers: [server]))
            }
        }
        await #expect(throws: NATSError(.invalidArguments, "")) {
            _ = try await NATSClient.open(NATSOptions(servers: []))
        }
        var options = NATSOptions(servers: ["nats://user:secret@localhost:1"])
        let error = await #expect(throws: NATSError.self) { _ = try await NATSClient.open(options) }
        #expect(error?.description.contains("secret") == false)
        options.name = #"a","x":"y"#
        await #expect(throws: NATSError(.invalidArguments, "")) { _ = try await NATSClient.open(options) }
        options.name = "a"
        options.inboxPrefix = "a.>"
        await #expect(throws: NATSError(.invalidArguments, "")) { _ = try await NATSClient.open(options) }
    }

    @Test("a subscription whose reader is too slow ends with slow-reader")
    func slowReader() async throws {
        try await TestServer.run(.debian) { server in
            try await NATSClient.withClient(server.options) { client in
                var messages = try await client.subscribe("a", limit: 2).makeAsyncIterator()
                for _ in 0..<5 { try await client.publish("a") }
                await #expect(throws: NATSError(.noResponders, "")) { _ = try await client.request("nobody") }
                await #expect(throws: NATSError(.slowReader, "")) { while try await messages.next() != nil {} }
            }
        }
    }

    @Test("500 subscriptions use one thread, and end with their readers")
    func threads() async throws {
        try await TestServer.run(.debian) { server in
            try await NATSClient.withClient(server.options) { client in
                let before = threadCount()
                var subscriptions: [NATSSubscription] = []
                for _ in 0..<500 { subscriptions.append(try await client.subscribe("a")) }
                // Other tests run at the same time, and also have threads.
                #expect(threadCount() - before < 200)
                subscriptions = []
                await #expect(throws: NATSError(.noResponders, "")) { _ = try await client.request("a") }
            }
        }
    }
}

/// Runs `body` with a client while another client answers requests to `echo` with their payload.
private func withEcho(_ server: TestServer, _ body: @Sendable (NATSClient) async throws -> Void) async throws {
    try await NATSClient.withClient(server.options) { echo in
        let requests = try await echo.subscribe("echo")
        let task = Task {
            for try await request in requests {
                if let reply = request.reply { try await echo.publish(reply, request.payload) }
            }
        }
        defer { task.cancel() }
        // The server has the subscription when it answers this request.
        await #expect(throws: NATSError(.noResponders, "")) { _ = try await echo.request("nobody") }
        try await NATSClient.withClient(server.options, body)
    }
}

/// The number of threads of this process.
private func threadCount() -> Int {
    guard let folder = opendir("/proc/self/task") else { return 0 }
    defer { closedir(folder) }
    var count = 0
    while readdir(folder) != nil { count += 1 }
    return count
}

/// Repeats `body` while a server that has just started does not answer.
func untilReady<Result>(_ body: () async throws -> Result) async throws -> Result {
    while true {
        do { return try await body() } catch let error as NATSError {
            switch error.code {
            case .noResponders, .notConnected, .disconnected, .timedOut, .tryAgain: continue
            default: throw error
            }
        }
    }
}

extension UInt16 {
    fileprivate var bytes: [UInt8] { [UInt8(self >> 8), UInt8(truncatingIfNeeded: self)] }
}
