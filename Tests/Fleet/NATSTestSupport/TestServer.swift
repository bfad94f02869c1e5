import DescriptorIO
import Glibc
package import NATS
import OTATestSupport
package import SystemPackage

/// A nats-server on a free port of the loopback interface, with JetStream and a folder of its own.
package final class TestServer: Sendable {
    /// The servers that the tests use.
    package enum Version: String, CaseIterable, Sendable, CustomStringConvertible {
        /// Debian 12: 2.9.10.
        case debian
        /// The newest server, from the Python environment of scripts/setup.
        case newest

        var program: String {
            switch self {
            case .debian: "/usr/sbin/nats-server"
            case .newest: FilePath(PythonEnvironment.python).removingLastComponent().appending("nats-server").string
            }
        }

        package var description: String { self == .debian ? "nats-server 2.9.10" : "nats-server 2.15.1" }
    }

    private struct Running {
        var process: ServerProcess
        var end: Task<Void, Never>
    }

    package let version: Version
    package let folder: FilePath
    /// Returns the configuration for a port; nil: the configuration is a file of the test.
    private let configuration: (@Sendable (Int) -> String)?
    private let running = Guarded(Running?.none)
    private let usedPort = Guarded(-1)

    private init(_ version: Version, _ folder: FilePath, _ configuration: (@Sendable (Int) -> String)?) {
        (self.version, self.folder, self.configuration) = (version, folder, configuration)
    }

    package var port: Int { usedPort.with { $0 } }
    /// The host is a name, because the certificates of the tests contain this name.
    package var url: String { "nats://localhost:\(port)" }

    /// Options with a short wait between attempts, and long time limits, because other programs can use the computer at the same time.
    package var options: NATSOptions {
        var options = NATSOptions(servers: [url])
        options.reconnectWait = .milliseconds(20)
        options.requestTimeout = .seconds(60)
        options.connectTimeout = .seconds(60)
        options.pingInterval = .seconds(60)
        return options
    }

    /// Runs `body` with a new server. The server ends with `body`.
    ///
    /// - Parameter settings: additional lines of the server's configuration file. `FOLDER` is replaced by the server's folder.
    @discardableResult package static func run<Result: Sendable>(
        _ version: Version, hasJetStream: Bool = true, _ settings: String = "",
        _ body: (TestServer) async throws -> Result
    ) async throws -> Result {
        try await TemporaryFolder.run { folder in
            try await run(version, in: folder, hasJetStream: hasJetStream, settings, body)
        }
    }

    /// Runs `body` with a new server that has its files in `folder`.
    @discardableResult package static func run<Result: Sendable>(
        _ version: Version, in folder: FilePath, name: String = "one", hasJetStream: Bool = true, _ settings: String,
        _ body: (TestServer) async throws -> Result
    ) async throws -> Result {
        let store = folder.appending(name).string
        let settings = settings.replacing("FOLDER", with: folder.string)
        let server = TestServer(version, folder) { port in
            """
            server_name: \(name)
            listen: "127.0.0.1:\(port)"
            \(hasJetStream ? "jetstream { store_dir: \"\(store)\", max_mem: 64M, max_file: 4G }" : "")
            \(settings)

            """
        }
        do {
            try await server.start(name)
            let result = try await body(server)
            await server.kill()
            return result
        } catch {
            await server.kill()
            throw error
        }
    }

    /// Runs `body` with a server that has exactly the given configuration, which listens on 127.0.0.1.
    @discardableResult package static func run<Result: Sendable>(
        _ version: Version, configuration file: FilePath, _ body: (TestServer) async throws -> Result
    ) async throws -> Result {
        let server = TestServer(version, file.removingLastComponent(), nil)
        do {
            try await server.start(file.stem ?? "")
            let result = try await body(server)
            await server.kill()
            return result
        } catch {
            await server.kill()
            throw error
        }
    }

    /// Starts the server. A second start uses the port of the first one.
    package func start(_ name: String = "one") async throws {
        guard access(version.program, X_OK) == 0 else {
            throw ServerEnded(log: "\(version.program) does not exist; hint: run scripts/setup test")
        }
        let file = folder.appending("\(name).conf")
        if let configuration { try file.write(configuration(port)) }
        let (started, port) = try await Self.start(version.program, ["-c", file.string])
        running.with { $0 = started }
        usedPort.with { $0 = port }
    }

    private static func start(_ program: String, _ arguments: [String]) async throws -> (Running, port: Int) {
        let (starts, started) = AsyncThrowingStream.makeStream(of: Int.self)
        let process = try ServerProcess(program: program, arguments: arguments)
        // The thread reads the server's output until its end.
        let thread = try LoopThread()
        let running = Running(process: process, end: Task { await thread.run { process.read(started) } })
        for try await port in starts { return (running, port) }
        throw CancellationError()
    }

    /// Runs `body` with the port of another program, which prints the same lines as nats-server when it is ready.
    package static func run(
        program: String, arguments: [String], _ body: (_ port: Int) async throws -> Void
    ) async throws {
        let (running, port) = try await start(program, arguments)
        do { try await body(port) } catch {
            running.process.end()
            throw error
        }
        running.process.end()
        await running.end.value
    }

    /// Ends the server with SIGKILL and waits for its end.
    package func kill() async {
        guard let running = running.exchange(nil) else { return }
        running.process.end()
        await running.end.value
    }

    /// Replaces a folder with JetStream's files by a copy of another one. The server must not run.
    package func copyFiles(from source: String = "one", to target: String = "one") async throws {
        _ = try await Command.run("rm", ["-rf", folder.appending(target).string])
        _ = try await Command.run("cp", ["-a", folder.appending(source).string, folder.appending(target).string])
    }

    /// Stops the server's execution without its end, and waits until it is stopped. `resume` and `kill` end this state.
    package func pause() {
        guard let process = running.with({ $0?.process }) else { return }
        process.signal(SIGSTOP)
        while !process.isStopped {}
    }

    package func resume() { running.with { $0?.process }?.signal(SIGCONT) }

    /// Makes the server read its configuration file again with the command of the documentation, `nats-server --signal reload`. The command
    /// gets the process, because the tests run several servers.
    package func reloadByCommand() async throws {
        guard let id = running.with({ $0?.process.id }) else { return }
        let run = try await Command.run(version.program, ["--signal", "reload=\(id)"])
        guard run.succeeded else { throw ServerEnded(log: run.errorText) }
    }

    /// Makes the server read its configuration file again, after a change of `settings`.
    package func reload(_ settings: String, _ name: String = "one") throws {
        try folder.appending("\(name).conf").write((configuration?(port) ?? "") + settings)
        running.with { $0?.process }?.signal(SIGHUP)
    }
}

/// A folder that exists during a test.
package enum TemporaryFolder {
    @discardableResult package static func run<Result: Sendable>(_ body: (FilePath) async throws -> Result) async throws
        -> Result
    {
        var template = Array("/tmp/otaflash-nats-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Errno(rawValue: errno) }
        let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        do {
            let result = try await body(FilePath(path))
            _ = try await Command.run("rm", ["-rf", path])
            return result
        } catch {
            _ = try? await Command.run("rm", ["-rf", path])
            throw error
        }
    }
}

extension FilePath {
    package func write(_ text: String) throws {
        let file = try FileDescriptor.open(
            self, .writeOnly, options: [.create, .truncate], permissions: .ownerReadWrite)
        try file.closeAfter { _ = try file.writeAll(text.utf8) }
    }
}
