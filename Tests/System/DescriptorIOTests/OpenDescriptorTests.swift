import DescriptorIO
import Glibc
import Testing

@Suite("Asynchronous reads and writes of descriptors") struct OpenDescriptorTests {
    private static func pair(_ type: __socket_type) throws -> (OpenDescriptor, OpenDescriptor) {
        var ends: [CInt] = [-1, -1]
        try #require(socketpair(AF_UNIX, CInt(type.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0)
        let thread = try LoopThread()
        return (try OpenDescriptor(adopting: ends[0], on: thread), try OpenDescriptor(adopting: ends[1], on: thread))
    }

    @Test("each read returns one datagram, also an empty one")
    func datagramsStayApart() async throws {
        let (here, there) = try Self.pair(SOCK_DGRAM)
        for datagram in [[1, 2, 3], [], [4]] as [[UInt8]] { try await here.write(datagram) }
        #expect(try await there.read() == [1, 2, 3])
        #expect(try await there.read() == [])
        #expect(try await there.read() == [4])
    }

    @Test("a write of 1 MB waits for the reader and delivers all bytes")
    func aWriterWaitsForRoom() async throws {
        let (here, there) = try Self.pair(SOCK_STREAM)
        // More than the size of any socket buffer.
        let bytes = (0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 / 251) }
        async let written: Void = here.write(bytes)
        var read: [UInt8] = []
        while read.count < bytes.count { read += try await there.read() }
        try await written
        #expect(read == bytes)
    }

    @Test("a read returns no bytes after the other end is closed")
    func theOtherEndsCloseIsAnEnd() async throws {
        let (here, there) = try Self.pair(SOCK_STREAM)
        async let end = there.read()
        await here.close()
        #expect(try await end == [])
    }

    @Test("closing a descriptor ends a waiting read with closed")
    func closingLetsTheReaderGo() async throws {
        let (here, there) = try Self.pair(SOCK_DGRAM)
        let reader = Task { try await here.read() }
        try await there.write([1])
        #expect(try await reader.value == [1])
        let waiting = Task { try await here.read() }
        await here.close()
        await #expect(throws: DescriptorError.closed) { try await waiting.value }
        await #expect(throws: DescriptorError.closed) { try await here.write([1]) }
    }

    @Test("cancelling the task of a waiting read ends it with cancelled")
    func cancellingLetsTheReaderGo() async throws {
        let (here, there) = try Self.pair(SOCK_STREAM)
        let reader = Task { try await here.read() }
        reader.cancel()
        await #expect(throws: DescriptorError.cancelled) { try await reader.value }
        await there.close()
    }

    @Test("an invalid descriptor is refused with EBADF")
    func whatIsNoDescriptorIsRefused() throws {
        let thread = try LoopThread()
        #expect(throws: DescriptorError.system("cannot set non-blocking mode", EBADF)) {
            try OpenDescriptor(adopting: -1, on: thread)
        }
    }
}
