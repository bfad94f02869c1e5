import Glibc

/// Wakes poll(2) from another thread. It is a pair of sockets, because Swift's Glibc provides neither eventfd nor pipe2.
struct WakePipe: ~Copyable, Sendable {
    private let reading: CInt
    private let writing: CInt

    init() throws(DescriptorError) {
        var ends: [CInt] = [-1, -1]
        let type = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else {
            throw .system("no pair of sockets could be made", errno)
        }
        (reading, writing) = (ends[0], ends[1])
    }

    deinit {
        _ = close(reading)
        _ = close(writing)
    }

    var interest: pollfd { pollfd(fd: reading, events: Int16(POLLIN), revents: 0) }

    func signal() {
        // An error is ignored: if the buffer is full, poll(2) wakes anyway.
        var byte: UInt8 = 0
        _ = send(writing, &byte, 1, CInt(MSG_NOSIGNAL))
    }

    func clear() {
        withUnsafeTemporaryAllocation(byteCount: 64, alignment: 1) { buffer in
            while read(reading, buffer.baseAddress, buffer.count) > 0 {}
        }
    }
}
