import DBus
import Glibc
import Subprocess
import SystemPackage
import Testing

/// Descriptors and threads are the process's, and other tests come and go: so these run in a process of their own.
@Suite struct LeakTests {
    @Test func openAndClose() async {
        await #expect(processExitsWith: .success) {
            try await TestBus.run { bus in
                try await Usage.stays {
                    let connection = try await DBusConnection.open(.address(bus.address))
                    let stream = try await connection.signals(matching: DBusMatch(sender: "org.example.Nobody"))
                    let reading = Task { for try await _ in stream {} }
                    try await connection.export("/", [.echo])
                    let (socket, other) = try PacketSocket.pair(on: connection.executor)
                    _ = try await connection.call(
                        connection.uniqueName, "/", "org.example.Echo", "Echo", [.variant(.unixFileDescriptor(other))])
                    try await socket.send([[1]])
                    await connection.close()
                    _ = await reading.result
                }
            }
        }
    }

    @Test func openAndLetGo() async {
        await #expect(processExitsWith: .success) {
            try await TestBus.run { bus in
                try await Usage.stays {
                    let connection = try await DBusConnection.open(.address(bus.address))
                    _ = try await connection.signals(matching: DBusMatch(member: "M"))
                    let (socket, _) = try PacketSocket.pair(on: connection.executor)
                    await #expect(throws: DBusError(.socketClosed, "")) { try await socket.send([[1], [2]]) }
                }
            }
        }
    }

    @Test func openInVain() async {
        await #expect(processExitsWith: .success) {
            try await Usage.stays { _ = try? await DBusConnection.open(.address("unix:path=/nonexistent")) }
        }
    }
}

enum Usage {
    /// Fails unless `body` run a hundred times leaves as many descriptors and threads as after the first.
    static func stays(_ body: () async throws -> Void) async throws {
        try await body()
        try await settle()
        let before = try now()
        for _ in 0..<100 { try await body() }
        // A thread that is told to end takes a moment.
        for _ in 0..<200 where try now() != before { try await settle() }
        let after = try now()
        precondition(after == before, "before: \(before), after: \(after)")
    }

    private static func settle() async throws { try await Task.sleep(for: .milliseconds(10)) }

    private static func now() throws -> [String: Int] {
        ["descriptors": entries("/proc/self/fd"), "threads": entries("/proc/self/task")]
    }

    private static func entries(_ folder: String) -> Int {
        guard let directory = opendir(folder) else { return -1 }
        defer { closedir(directory) }
        var count = 0
        while readdir(directory) != nil { count += 1 }
        return count
    }
}
