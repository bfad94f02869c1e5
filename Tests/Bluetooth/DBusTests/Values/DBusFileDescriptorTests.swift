import DBus
import Glibc
import Testing

@Suite("D-Bus file descriptors")
struct DBusFileDescriptorTests {
    @Test("take transfers the ownership of a descriptor once")
    func ownership() throws {
        let (owner, number) = try descriptor()
        #expect(owner.withDescriptor { $0 } == number)
        #expect(owner.take() == number)
        #expect(owner.take() == nil)
        owner.close()
        #expect(fcntl(number, F_GETFD) >= 0)
        close(number)
    }

    @Test("a descriptor is closed when its owner is released")
    func isClosedWithItsOwner() throws {
        // The other end of the pipe shows the close. The descriptor's number cannot, because another thread may reuse it.
        var ends: [CInt] = [-1, -1]
        try #require(pipe(&ends) == 0)
        defer { close(ends[0]) }
        var owner: DBusFileDescriptor? = DBusFileDescriptor(adopting: ends[1])
        #expect(owner?.withDescriptor { $0 } == ends[1])
        owner = nil
        var byte: UInt8 = 0
        #expect(read(ends[0], &byte, 1) == 0)
    }

    @Test("a sent descriptor is duplicated, and no copy stays open")
    func fromHere() async throws {
        try await Peer.run { connection, peer in
            var ends: [CInt] = [-1, -1]
            try #require(pipe(&ends) == 0)
            let (reading, writing) = (DBusFileDescriptor(adopting: ends[0]), DBusFileDescriptor(adopting: ends[1]))
            // dbus-fast shows an index in the body and the descriptors in `unix_fds`.
            _ = try await peer.python(
                """
                def note(message):
                    if message.member == 'Take':
                        os.write(message.unix_fds[message.body[0]], b'from afar')
                        for fd in message.unix_fds: os.close(fd)
                        return Message.new_method_return(message)
                bus.add_message_handler(note)
                """)
            _ = try await connection.call(Peer.name, "/", "org.example.Other", "Take", [.unixFileDescriptor(writing)])
            writing.close()
            var buffer = [UInt8](repeating: 0, count: 64)
            let count = reading.withDescriptor { read($0 ?? -1, &buffer, buffer.count) }
            #expect(buffer.prefix(max(count, 0)) == ArraySlice("from afar".utf8))
            // The pipe is at its end only if every copy is closed.
            #expect(reading.withDescriptor { read($0 ?? -1, &buffer, buffer.count) } == 0)
        }
    }

    @Test("a received descriptor works, has one owner and is closed on exec")
    func fromThere() async throws {
        try await Peer.run { connection, peer in
            _ = try await peer.python(
                """
                def give(message):
                    if message.member == 'Give':
                        reading, writing = os.pipe()
                        os.write(writing, b'from afar')
                        os.close(writing)
                        return Message.new_method_return(message, 'qhh', [517, 0, 1], [reading, reading])
                bus.add_message_handler(give)
                """)
            let reply = try await connection.call(Peer.name, "/", "org.example.Other", "Give")
            #expect(reply.first == .uint16(517))
            let owner = try reply.require(1, \.unixFileDescriptor)
            #expect(try reply.require(2, \.unixFileDescriptor) != owner)
            let number = try #require(owner.take())
            defer { close(number) }
            #expect(fcntl(number, F_GETFD) & FD_CLOEXEC != 0)
            var buffer = [UInt8](repeating: 0, count: 64)
            let count = read(number, &buffer, buffer.count)
            #expect(buffer.prefix(max(count, 0)) == ArraySlice("from afar".utf8))
        }
    }

    @Test("a closed descriptor is not sent")
    func oneThatIsClosed() async throws {
        try await TestBus.withConnection { connection, _ in
            let (owner, _) = try descriptor()
            owner.close()
            try await connection.export("/", [.echo])
            for value in [
                DBusValue.unixFileDescriptor(owner), .array(of: .unixFileDescriptor, [.unixFileDescriptor(owner)]),
            ] {
                await #expect(throws: DBusError(.invalidArguments, "")) {
                    try await connection.call(connection.uniqueName, "/", "org.example.Echo", "Echo", [.variant(value)])
                }
            }
        }
    }

    @Test("more than 253 descriptors in one message are refused")
    func tooMany() async throws {
        try await TestBus.withConnection { connection, _ in
            let (owner, _) = try descriptor()
            let values = Array(repeating: DBusValue.unixFileDescriptor(owner), count: 254)
            await #expect(throws: DBusError(.invalidArguments, "")) {
                try await connection.call("a.b", "/", "a.b", "M", [.array(of: .unixFileDescriptor, values)])
            }
        }
    }
}

private func descriptor() throws -> (DBusFileDescriptor, CInt) {
    let number = open("/dev/null", O_RDWR | O_CLOEXEC)
    try #require(number >= 0)
    return (DBusFileDescriptor(adopting: number), number)
}
