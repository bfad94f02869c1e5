import Glibc
import OTAEngine
import OTALinks
import Subprocess
import SystemPackage
import Testing

/// Pushes in real time that are ended by a signal or a timeout.
@Suite("Push ended by a signal or a timeout") struct InterruptionTests {
    /// The transfer takes minutes at the speed of `pushing`, so that a slow machine can react in time.
    private static let size = 1_900_000

    /// Starts a push and runs `body` during the transfer.
    private func pushing(
        _ sandbox: Sandbox, _ body: @Sendable (ProcessIdentifier) async throws -> Void
    ) async throws -> (status: TerminationStatus, output: String) {
        try await sandbox.release(size: Self.size)
        try await sandbox.create()
        let words = [
            "push", "fw.otaf", "--device", "sim:kitchen?interval=100ms", "--trust", "release.pub.pem", "--format",
            "json",
            "--progress", "json",
        ]
        let result = try await Subprocess.run(
            .path(Sandbox.binary), arguments: Arguments(words), environment: sandbox.environment(),
            workingDirectory: sandbox.folder, input: .none, output: .string(limit: 1 << 16), error: .sequence
        ) { execution in
            var acted = false
            for try await line in execution.standardError.strings() where !acted {
                let event = try JSONValue(parsing: line)
                guard event.event?.string == "progress", let offset = event.offset?.number, offset > 40_000 else {
                    continue
                }
                acted = true
                try await body(execution.processIdentifier)
            }
            #expect(acted)
        }
        return (result.terminationStatus, result.standardOutput)
    }

    private func resume(_ sandbox: Sandbox) async throws {
        let run = try await sandbox.push("sim:kitchen?pace=virtual")
        #expect(run.exit == 0, "\(run.err)")
        let json = try run.json()
        #expect(json.device?.running_version?.string == "1.1.0" && json.device?.confirmed?.bool == true)
        let offset = try #require(json.transfer?.resumed_from?.number)
        #expect(offset > 0 && json.transfer?.sent_bytes?.number == Double(Self.size) - offset)
    }

    @Test(
        "SIGINT and SIGTERM end a push with its JSON, and the next push continues from the device's offset",
        arguments: zip([SIGINT, SIGTERM], [Int32(130), 143]))
    func stopsCleanlyAndIsResumed(signal: Int32, exit: Int32) async throws {
        let sandbox = try Sandbox()
        let (status, output) = try await pushing(sandbox) { kill($0.value, signal) }
        #expect(status == .exited(exit))
        let json = try JSONValue(parsing: output)
        #expect(json.exit?.number == Double(exit) && json.error?.code?.string == "interrupted")
        #expect(json.error?.hint?.string?.contains("resume the update: otaflash push") == true)
        try await resume(sandbox)
    }

    @Test("a push resumes from the device's offset after kill -9")
    func isKilledAndResumed() async throws {
        let sandbox = try Sandbox()
        let (status, output) = try await pushing(sandbox) { kill($0.value, SIGKILL) }
        #expect(status == .signaled(SIGKILL) && output.isEmpty)
        try await resume(sandbox)
    }

    @Test("a second command on a device in use is refused with the process ID of the first")
    func oneAtATime() async throws {
        let sandbox = try Sandbox()
        _ = try await pushing(sandbox) { process in
            // The stopped process keeps the lock of the device.
            kill(process.value, SIGSTOP)
            for words in [["push", "fw.otaf", "--trust", "release.pub.pem"], ["status"], ["discard"]] {
                let run = try await sandbox.run(words + ["--device", "sim:kitchen", "--format", "json"])
                #expect(run.exit == 75)
                let error = try #require(try run.json().error)
                #expect(error.code?.string == "device-in-use")
                #expect(error.message?.string?.contains("process \(process.value)") == true)
            }
            #expect(try await sandbox.run("simulate", "remove", "kitchen").exit == 75)
            kill(process.value, SIGKILL)
        }
        // The lock ended with its process.
        #expect(try await sandbox.run("status", "--device", "sim:kitchen?pace=virtual").exit == 0)
    }

    /// Runs a push to a device that does not answer. The stderr of the push is a full pipe.
    ///
    /// - Parameter body: runs after the push has sent its first packet; nil: not used.
    private func pushingBlocked(
        _ options: [String], _ body: (@Sendable (ProcessIdentifier) -> Void)? = nil
    ) async throws -> TerminationStatus {
        let sandbox = try Sandbox()
        try await sandbox.mcuboot()
        let device = try await UDPListener(at: UDPAddress(host: "127.0.0.1", port: 0))
        let pipe = try FileDescriptor.pipe()
        defer { for end in [pipe.readEnd, pipe.writeEnd] { try? end.close() } }
        #expect(fcntl(pipe.writeEnd.rawValue, F_SETFL, O_NONBLOCK) == 0)
        while (try? pipe.writeEnd.writeAll([0])) != nil {}
        #expect(fcntl(pipe.writeEnd.rawValue, F_SETFL, 0) == 0)
        let words = [
            "push", "fw.signed.bin", "--trust", "release.pub.pem", "--device", "udp:127.0.0.1:\(device.port)",
        ]
        let result = try await Subprocess.run(
            .path(Sandbox.binary), arguments: Arguments(words + options), environment: sandbox.environment(),
            workingDirectory: sandbox.folder, input: .none, output: .discarded,
            error: .fileDescriptor(pipe.writeEnd, closeAfterSpawningProcess: false)
        ) { execution in
            guard let body else { return }
            _ = await device.receive()
            body(execution.processIdentifier)
        }
        await device.close()
        return result.terminationStatus
    }

    @Test("a push whose stderr is blocked ends with 75 after --timeout")
    func timeoutBehindABlockedStream() async throws {
        #expect(try await pushingBlocked(["--verbose", "--timeout", "1s"]) == .exited(75))
    }

    @Test("a second signal ends a push at once although its stderr is blocked")
    func secondSignalBehindABlockedStream() async throws {
        // The kernel merges two pending signals of the same number.
        let status = try await pushingBlocked(["--progress", "none"]) { process in
            for signal in [SIGINT, SIGTERM] { kill(process.value, signal) }
        }
        #expect([.exited(130), .exited(143)].contains(status), "\(status)")
    }

    @Test("a push of a FIFO without a writer ends with 75 after --timeout")
    func timeoutBehindAFIFO() async throws {
        let sandbox = try Sandbox()
        #expect(mkfifo(sandbox.path("fifo"), 0o600) == 0)
        let run = try await sandbox.run("push", "fifo", "--device", "udp:127.0.0.1:9", "--timeout", "1s")
        #expect(run.exit == 75)
    }
}
