import FakeBlueZ
import OTATestSupport
import Subprocess
import SystemPackage
import Testing

/// Devices whose names, versions and error reasons contain control sequences for the terminal.
@Suite("Hostile text from devices") struct HostileTextTests {
    private static let server = FilePath(#filePath).removingLastComponent()
        .appending("Support").appending("hostile_smp.py").string

    /// Runs `body` with the address of an SMP server that sends hostile text.
    private func withHostileDevice(_ body: (String) async throws -> Void) async throws {
        _ = try await Subprocess.run(
            .path("/usr/bin/python3"), arguments: [Self.server], input: .none, output: .sequence, error: .discarded
        ) { execution in
            defer { try? execution.send(signal: .kill) }
            for try await line in execution.standardOutput.strings() {
                return try await body("udp:127.0.0.1:\(line.filter(\.isNumber))")
            }
            throw SandboxError(message: "the hostile server does not start")
        }
    }

    private func expectSafe(_ text: String, _ what: String) {
        let isSafe = text.split(separator: "\n").allSatisfy { TerminalLineTests.isSafe(String($0)) }
        #expect(isSafe, "\(what): \(text.debugDescription)")
        #expect(!text.split(separator: "\n").contains { $0.hasPrefix("✔") }, "\(what): \(text)")
    }

    @Test("no text from an SMP device controls the terminal in answers, errors, progress, logs and JSON")
    func smpDevice() async throws {
        let sandbox = try Sandbox()
        try await sandbox.mcuboot()
        try await withHostileDevice { device in
            var shown = 0
            for command in [
                ["status"], ["confirm"], ["discard"], ["identify"],
                ["push", "fw.signed.bin", "--trust", "release.pub.pem"],
            ] {
                for options in [
                    [], ["--verbose"], ["--format", "json"], ["--progress", "lines"],
                    ["--progress", "json", "--verbose"],
                ] {
                    let run = try await sandbox.run(command + ["--device", device] + options)
                    expectSafe(run.out, "\(command + options), stdout")
                    expectSafe(run.err, "\(command + options), stderr")
                    if (run.out + run.err).contains("gnp") { shown += 1 }
                    if options == ["--format", "json"] { _ = try run.json() }
                    if options.contains("json"), options.contains("--verbose") { _ = try run.events() }
                }
            }
            // The loop must have shown hostile text, or it tested nothing.
            #expect(shown >= 15)
        }
    }

    @Test("status and push on a terminal show no control sequence of an SMP device")
    func smpDeviceOnTerminal() async throws {
        let sandbox = try Sandbox()
        try await sandbox.mcuboot()
        try await withHostileDevice { device in
            for command in [["status"], ["push", "fw.signed.bin", "--trust", "release.pub.pem"]] {
                let (_, screen) = try await sandbox.onTerminal(command + ["--device", device])
                #expect(screen.contains("gnp"))
                expectOwnSequencesOnly(screen)
            }
        }
    }

    @Test("scan shows a hostile name escaped in its tables, its lines and its JSON, and its table stays aligned")
    func scannedName() async throws {
        let name = TerminalLineTests.hostile.filter { $0 != "\0" }.joined() + String(repeating: "界", count: 60)
        let evil = FakeBlueZ.Neighbour(
            "00:AA:01:07:00:42", name, services: ["c7e10001-63a0-486d-9bcb-a18d79d9acd9"], rssi: -50)
        try await World.run(neighbours: [evil]) { world in
            let sandbox = try Sandbox()
            for options in [[], ["--progress", "json"], ["--verbose"], ["--format", "json"]] {
                let run = try await sandbox.run(
                    ["scan", "--timeout", "1", "--no-read"] + options, env: Sandbox.environment(of: world))
                #expect(run.exit == 0 && (run.out + run.err).contains("title"), "\(run.err)")
                expectSafe(run.out, "\(options), stdout")
                expectSafe(run.err, "\(options), stderr")
                if options == ["--format", "json"] {
                    #expect(try run.json().devices?.array?.contains { $0.name?.string == name } == true)
                }
            }
            let table = try await sandbox.run("scan", "--timeout", "1", "--no-read", in: world).out
            // A wide character has two columns.
            let columns = table.split(separator: "\n").compactMap { line in
                line.firstRange(of: "ble:").map { line[..<$0.lowerBound].unicodeScalars }
            }.map { text in text.count + text.count { $0 == "界" } }
            #expect(columns.count == 2 && Set(columns).count == 1, "\(table)")
            let (_, screen) = try await sandbox.onTerminal(
                "scan", "--timeout", "1", "--no-read", env: Sandbox.environment(of: world))
            #expect(screen.contains("title"))
            expectOwnSequencesOnly(screen)
        }
    }

    @Test("scan shows the hostile board name that it read from a device escaped")
    func scannedBoard() async throws {
        let board = "evil\u{1B}]0;t\u{7}\u{1B}[31m\n✔ confirmed 9\r\u{202E}\u{9B}31m"
        try await World.run(board: board) { world in
            let sandbox = try Sandbox()
            for options in [[], ["--progress", "json"], ["--verbose"], ["--format", "json"]] {
                let run = try await sandbox.run(
                    ["scan", "--timeout", "1.5"] + options, env: Sandbox.environment(of: world))
                #expect(run.exit == 0 && run.out.contains("evil"), "\(run.err)")
                expectSafe(run.out, "\(options), stdout")
                expectSafe(run.err, "\(options), stderr")
                if options == ["--format", "json"] {
                    #expect(try run.json().devices?.array?.first?.product?.string == board)
                }
            }
            let (_, screen) = try await sandbox.onTerminal(
                "scan", "--timeout", "2.5", columns: 140, env: Sandbox.environment(of: world))
            // Once in the live table and once in the answer.
            #expect(screen.ranges(of: "evil").count > 1, "\(screen.debugDescription)")
            expectOwnSequencesOnly(screen)
        }
    }

    @Test("an argument with line feeds cannot forge the usage text of a command")
    func forgedUsage() async throws {
        let run = try await Sandbox().run("verify", "a", "b\nUsage: forged\nmore")
        #expect(
            run.exit == 64 && run.err.split(separator: "\n").allSatisfy { !$0.hasPrefix("Usage: forged") }, "\(run.err)"
        )
        #expect(run.err.contains("\nUsage: otaflash verify"))
    }

    /// Expects only text, line feeds, the sequences of `TerminalPiece` and the colours of `TerminalLine`.
    private func expectOwnSequencesOnly(_ screen: String) {
        let rest = screen.replacing(/\r\n|\r(\u{1B}\[[0-9]+A)?\u{1B}\[[JK]|\u{1B}\[(1;31|1;33|36|2|0)m/, with: "\n")
        expectSafe(rest, "screen")
    }
}
