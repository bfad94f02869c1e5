import DBus
import Glibc
import Testing

@Suite("Packet sockets")
struct PacketSocketTests {
    /// Runs `body` with two connected sockets of this program.
    private static func run(
        _ body: (PacketSocket, PacketSocket, DBusConnection) async throws -> Void
    ) async throws {
        try await TestBus.withConnection { connection, _ in
            let (ours, other) = try PacketSocket.pair(on: connection.executor)
            try await body(ours, try PacketSocket(other, on: connection.executor), connection)
        }
    }

    /// There are far more packets than the socket can hold, so the sender and the reader wait for each other.
    @Test("packets stay whole and in order when the socket is full")
    func packetsStayWholeAndInOrder() async throws {
        try await Self.run { sender, receiver, _ in
            let packets = (0..<5000).map { number in
                [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 1 + number % 512)
            }
            let sending = Task {
                for start in stride(from: 0, to: packets.count, by: 100) {
                    try await sender.send(Array(packets[start..<start + 100]))
                }
                await sender.close()
            }
            var came: [[UInt8]] = []
            for try await packet in receiver.packets { came.append(packet) }
            try await sending.value
            #expect(came == packets)
        }
    }

    @Test("empty packets arrive as empty packets")
    func emptyPackets() async throws {
        try await Self.run { sender, receiver, _ in
            try await sender.send([[], [1], []])
            var packets = receiver.packets.makeAsyncIterator()
            for expected in [[], [1], []] as [[UInt8]] { #expect(try await packets.next() == expected) }
        }
    }

    @Test("isDrained and waitUntilDrained report when the other end has received all packets")
    func drained() async throws {
        try await Self.run { sender, receiver, _ in
            #expect(try await sender.isDrained)
            try await sender.send([[1], [2]])
            #expect(try await !sender.isDrained)
            let draining = Task { try await sender.waitUntilDrained() }
            var packets = receiver.packets.makeAsyncIterator()
            _ = try await packets.next()
            _ = try await packets.next()
            try await draining.value
            #expect(try await sender.isDrained)
            try await sender.send([[3]])
            await receiver.close()
            await #expect(throws: DBusError(.socketClosed, "")) { try await sender.waitUntilDrained() }
        }
    }

    @Test("after the other end closes, its packets arrive, the sequence ends and sending fails")
    func theOtherEndCloses() async throws {
        try await Self.run { sender, receiver, _ in
            try await sender.send([[1], [2]])
            await sender.close()
            var packets = receiver.packets.makeAsyncIterator()
            #expect(try await packets.next() == [1])
            #expect(try await packets.next() == [2])
            #expect(try await packets.next() == nil)
            await #expect(throws: DBusError(.socketClosed, "")) { try await receiver.send([[3]]) }
        }
    }

    @Test("close wakes up a waiting sender and a waiting reader")
    func ourEndCloses() async throws {
        try await Self.run { sender, receiver, _ in
            let sending = Task {
                while true { try await sender.send([[UInt8](repeating: 0, count: 512)]) }
            }
            let (reading, feed) = AsyncStream.makeStream(of: Int.self)
            let waiting = Task {
                var packets = sender.packets.makeAsyncIterator()
                feed.yield(1)
                return try await packets.next()
            }
            for await _ in reading { break }
            while try await sender.isDrained { await Task.yield() }
            await sender.close()
            await #expect(throws: DBusError(.socketClosed, "")) { try await sending.value }
            #expect(try await waiting.value == nil)
            await sender.close()
            await #expect(throws: DBusError(.socketClosed, "")) { try await sender.isDrained }
        }
    }

    @Test("a cancelled send, read or wait ends at once")
    func cancellation() async throws {
        try await Self.run { sender, receiver, _ in
            let sending = Task {
                while true { try await sender.send([[UInt8](repeating: 0, count: 512)]) }
            }
            let reading = Task {
                var packets = sender.packets.makeAsyncIterator()
                return try await packets.next()
            }
            let draining = Task {
                while try await sender.isDrained { await Task.yield() }
                try await sender.waitUntilDrained()
            }
            for task in [sending, draining] {
                task.cancel()
                await #expect(throws: DBusError(.cancelled, "")) { try await task.value }
            }
            reading.cancel()
            let last = try await reading.value
            #expect(last == nil)
        }
    }

    @Test("a closed descriptor does not become a socket")
    func aDescriptorThatWasTaken() async throws {
        try await TestBus.withConnection { connection, _ in
            let (_, other) = try PacketSocket.pair(on: connection.executor)
            other.close()
            #expect(throws: DBusError(.socketClosed, "")) { try PacketSocket(other, on: connection.executor) }
        }
    }

    /// As with AcquireWrite and AcquireNotify of BlueZ, the other program creates the sockets.
    @Test("a socket from another program transfers packets in both directions")
    func acquiredFromAfar() async throws {
        try await Peer.run { connection, peer in
            _ = try await peer.python(
                """
                import socket
                def acquire(message):
                    if message.member == 'Acquire':
                        theirs, scope['mine'] = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                        return Message.new_method_return(message, 'hq', [0, 247], [theirs.detach()])
                bus.add_message_handler(acquire)
                """)
            let reply = try await connection.call(Peer.name, "/", "org.example.Other", "Acquire")
            let socket = try PacketSocket(try reply.require(0, \.unixFileDescriptor), on: connection.executor)
            #expect(try reply.require(1, \.uint16) == 247)
            try await socket.send([[1, 2], [3]])
            #expect(
                try await peer.python("data = [mine.recv(512), mine.recv(512)]; mine.send(b'note'); return data")
                    == "[b'\\x01\\x02', b'\\x03']")
            try await socket.waitUntilDrained()
            var packets = socket.packets.makeAsyncIterator()
            #expect(try await packets.next() == Array("note".utf8))
        }
    }
}
