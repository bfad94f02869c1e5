import Glibc
import Subprocess
import SystemPackage
import Testing

/// Pushes in real time that are ended from outside.
@Suite struct InterruptionTests {
    /// Minutes at the speed of `pushing`, so that a slow machine is in time for it, too.
    private static let size = 1_900_000

    /// Starts a push and does `body` once it is under way.
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
        let run = try await sandbox.push("sim:kitchen?pace=virtual", "--resume")
        #expect(run.exit == 0, "\(run.err)")
        let json = try run.json()
        #expect(json.device?.running_version?.string == "1.1.0" && json.device?.confirmed?.bool == true)
        let offset = try #require(json.transfer?.resumed_from?.number)
        #expect(offset > 0 && json.transfer?.sent_bytes?.number == Double(Self.size) - offset)
    }

    @Test(arguments: zip([SIGINT, SIGTERM], [Int32(130), 143]))
    func stopsCleanlyAndIsResumed(signal: Int32, exit: Int32) async throws {
        let sandbox = try Sandbox()
        let (status, output) = try await pushing(sandbox) { kill($0.value, signal) }
        #expect(status == .exited(exit))
        let json = try JSONValue(parsing: output)
        #expect(json.exit?.number == Double(exit) && json.error?.code?.string == "interrupted")
        #expect(json.error?.hint?.string?.contains("--resume") == true)
        try await resume(sandbox)
    }

    @Test func isKilledAndResumed() async throws {
        let sandbox = try Sandbox()
        let (status, output) = try await pushing(sandbox) { kill($0.value, SIGKILL) }
        #expect(status == .signaled(SIGKILL) && output.isEmpty)
        try await resume(sandbox)
    }

    @Test func oneAtATime() async throws {
        let sandbox = try Sandbox()
        _ = try await pushing(sandbox) { process in
            // It holds the device without going on.
            kill(process.value, SIGSTOP)
            for words in [["push", "fw.otaf", "--trust", "release.pub.pem"], ["status"], ["discard"]] {
                let run = try await sandbox.run(words + ["--device", "sim:kitchen", "--format", "json"])
                #expect(run.exit == 69)
                let error = try #require(try run.json().error)
                #expect(error.code?.string == "device-held")
                #expect(error.message?.string?.contains("process \(process.value)") == true)
            }
            #expect(try await sandbox.run("simulate", "remove", "kitchen").exit == 69)
            kill(process.value, SIGKILL)
        }
        // The lock went with its holder.
        #expect(try await sandbox.run("status", "--device", "sim:kitchen?pace=virtual").exit == 0)
    }
}
