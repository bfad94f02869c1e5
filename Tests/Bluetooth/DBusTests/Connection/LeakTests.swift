import DBus
import Glibc
import Subprocess
import SystemPackage
import Testing

/// Descriptors and threads belong to the process, and other tests run in it. Therefore each test here runs in its own process.
@Suite("Leaks of descriptors and threads")
struct LeakTests {
    @Test("100 connections that are closed leave no descriptors and no threads")
    func openAndClose() async {
        await #expect(processExitsWith: .success) { try await Usage.stays(Usage.openAndClose, times: 100) }
    }

    @Test("100 connections that are released without close leave no descriptors and no threads")
    func openAndLetGo() async {
        await #expect(processExitsWith: .success) { try await Usage.stays(Usage.openAndLetGo, times: 100) }
    }

    @Test("100 failed connections leave no descriptors and no threads")
    func openInVain() async {
        await #expect(processExitsWith: .success) {
            try await Usage.stays(
                { _ in _ = try? await DBusConnection.open(.address("unix:path=/nonexistent")) }, times: 100)
        }
    }
}

@Suite("Leaks of descriptors and threads, 1000 rounds")
struct ExhaustiveLeakTests {
    @Test("1000 connections that are closed leave no descriptors and no threads")
    func openAndClose() async {
        await #expect(processExitsWith: .success) { try await Usage.stays(Usage.openAndClose, times: 1000) }
    }

    @Test("1000 connections that are released without close leave no descriptors and no threads")
    func openAndLetGo() async {
        await #expect(processExitsWith: .success) { try await Usage.stays(Usage.openAndLetGo, times: 1000) }
    }
}

/// The descriptors and threads of this process.
private enum Usage {
    static func openAndClose(_ bus: TestBus) async throws {
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

    static func openAndLetGo(_ bus: TestBus) async throws {
        let connection = try await DBusConnection.open(.address(bus.address))
        _ = try await connection.signals(matching: DBusMatch(member: "M"))
        let (socket, other) = try PacketSocket.pair(on: connection.executor)
        other.close()
        await #expect(throws: DBusError(.socketClosed, "")) { try await socket.send([[1], [2]]) }
    }

    /// The maximum number of threads in the runtime's pools. The runtime starts and ends them as needed.
    private static let poolThreads = 8

    /// Fails if the process has more descriptors or threads after `times` rounds of `body` than after the first.
    static func stays(_ body: (TestBus) async throws -> Void, times: Int) async throws {
        try await TestBus.run { bus in
            try await body(bus)
            try await settle()
            let before = now()
            for _ in 0..<times { try await body(bus) }
            for _ in 0..<200 where hasGrown(since: before) { try await settle() }
            precondition(!hasGrown(since: before), "before: \(before), after: \(now())")
        }
    }

    /// No event reports that a thread or a descriptor of the process is gone, so `/proc` is polled.
    private static func settle() async throws { try await Task.sleep(for: .milliseconds(10)) }

    private static func now() -> (descriptors: Int, threads: Int) {
        (entries("/proc/self/fd"), entries("/proc/self/task"))
    }

    private static func hasGrown(since before: (descriptors: Int, threads: Int)) -> Bool {
        let now = now()
        return now.descriptors > before.descriptors || now.threads > before.threads + poolThreads
    }

    private static func entries(_ folder: String) -> Int {
        guard let directory = opendir(folder) else { return -1 }
        defer { closedir(directory) }
        var count = 0
        while readdir(directory) != nil { count += 1 }
        return count
    }
}
