import DBus
import Glibc
import Testing

@Suite("Opening and closing a D-Bus connection", .serialized)
struct DBusConnectionTests {
    @Test("open throws connectionFailed or invalidArguments for an address without a bus")
    func noBusThere() async throws {
        for address in [
            "unix:path=/nonexistent", "nonsense", "", "unix:path=/nonexistent\0", "tcp:host=127.0.0.1,port=1", "unix:",
        ] {
            do throws(DBusError) {
                _ = try await DBusConnection.open(.address(address))
                Issue.record("connected to \(address)")
            } catch {
                #expect(error.code == (address.utf8.contains(0) ? .invalidArguments : .connectionFailed))
            }
        }
    }

    @Test("open times out or is cancelled when the bus does not answer")
    func aBusThatDoesNotAnswer() async throws {
        try await withSilentServer { address in
            await #expect(throws: DBusError(.timedOut, "")) {
                try await DBusConnection.open(.address(address), timeout: .milliseconds(50))
            }
            let opening = Task { try await DBusConnection.open(.address(address), timeout: .seconds(60)) }
            opening.cancel()
            await #expect(throws: DBusError(.cancelled, "")) { try await opening.value }
        }
    }

    @Test("withConnection closes the connection on return and on error")
    func aScope() async throws {
        try await TestBus.run { bus in
            let left = try await DBusConnection.withConnection(.address(bus.address)) { connection in
                _ = try await connection.call(
                    "org.freedesktop.DBus", "/", "org.freedesktop.DBus.Peer", "Ping")
                return connection
            }
            await #expect(throws: DBusError(.disconnected, "")) {
                try await left.call("org.freedesktop.DBus", "/", "org.freedesktop.DBus.Peer", "Ping")
            }
            await #expect(throws: DBusError.remote("org.example.Error")) {
                try await DBusConnection.withConnection(.address(bus.address)) { _ in
                    throw DBusError.remote("org.example.Error")
                }
            }
        }
    }

    @Test("close ends pending calls and streams with disconnected")
    func closingEndsWhatWaits() async throws {
        try await Peer.run { connection, peer in
            let call = Task { try await peer.call("Never") }
            var signals = try await connection.signals(matching: DBusMatch()).makeAsyncIterator()
            _ = try await peer.call("Echo")
            await connection.close()
            await #expect(throws: DBusError(.disconnected, "")) { try await call.value }
            await #expect(throws: DBusError(.disconnected, "")) { while try await signals.next() != nil {} }
        }
    }

    @Test("a stream keeps its connection open")
    func aStreamHoldsItsConnection() async throws {
        try await TestBus.run { bus in
            var owners = try await DBusConnection.open(.address(bus.address)).owners(of: "org.example.Late")
                .makeAsyncIterator()
            #expect(try await owners.next() == .some(nil))
            try await DBusConnection.withConnection(.address(bus.address)) { other in
                try await other.requestName("org.example.Late")
                #expect(try await owners.next() == other.uniqueName)
            }
        }
    }
}

/// Runs `body` with the address of a socket that listens but never accepts or answers.
private func withSilentServer(_ body: (String) async throws -> Void) async throws {
    let listener = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    defer { close(listener) }
    let name = "otaflash-silent-\(getpid())"
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    // An abstract name follows a NUL.
    withUnsafeMutableBytes(of: &address.sun_path) { $0[1...].copyBytes(from: name.utf8) }
    let length = socklen_t(MemoryLayout<sa_family_t>.size + 1 + name.utf8.count)
    let bound = withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(listener, $0, length) }
    }
    try #require(bound == 0 && listen(listener, 8) == 0)
    try await body("unix:abstract=\(name)")
}
