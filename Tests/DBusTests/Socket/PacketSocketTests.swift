import DBus
import Glibc
import Testing

@Suite(.timeLimit(.minutes(1))) struct PacketSocketTests {
    /// Two sockets, both of ours.
    private static func run(
        _ body: (PacketSocket, PacketSocket, DBusConnection) async throws -> Void
    ) async throws {
        try await TestBus.withConnection { connection, _ in
            let (ours, other) = try PacketSocket.pair(on: connection.executor)
            try await body(ours, try PacketSocket(other, on: connection.executor), connection)
        }
    }

    /// Far more than the socket holds, so that sender and reader wait for each other.
    @Test func packetsStayWholeAndInOrder() async throws {
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

    @Test func emptyPackets() async throws {
        try await Self.run { sender, receiver, _ in
            try await sender.send([[], [1], []])
            var packets = receiver.packets.makeAsyncIterator()
            for expected in [[], [1], []] as [[UInt8]] { #expect(try await packets.next() == expected) }
        }
    }

    @Test func drained() async throws {
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

    @Test func theOtherEndCloses() async throws {
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

    /// A sender and a reader that wait are woken.
    @Test func ourEndCloses() async throws {
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

    @Test func cancellation() async throws {
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

    @Test func aDescriptorThatWasTaken() async throws {
        try await TestBus.withConnection { connection, _ in
            let (_, other) = try PacketSocket.pair(on: connection.executor)
            other.close()
            #expect(throws: DBusError(.socketClosed, "")) { try PacketSocket(other, on: connection.executor) }
        }
    }

    /// As with AcquireWrite and AcquireNotify of BlueZ: the other side makes the sockets.
    @Test func acquiredFromAfar() async throws {
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
