import Glibc
import Subprocess
import Testing

/// Commands for devices that never finish: each command ends by itself with a code for the reason.
@Suite("Commands for devices that never finish") struct LivenessTests {
    private static let server = Sandbox.repository("Tests/CommandLine/OTACommandsTests/Support/lying_smp_server.py")

    /// Runs a command with the address of the lying server.
    ///
    /// - Returns: the run, and the number of bytes that the server received in upload packets.
    private static func meet(
        _ way: String, _ command: (Sandbox, String) async throws -> Run
    ) async throws -> (Run, received: Int) {
        let sandbox = try Sandbox()
        try await sandbox.mcuboot(size: 60_000)
        let result = try await Subprocess.run(
            .name("python3"), arguments: Arguments([server, way]), input: .none, output: .sequence, error: .discarded
        ) { execution in
            var lines = execution.standardOutput.strings().makeAsyncIterator()
            let port = try #require(try await lines.next())
            let run = try await command(sandbox, "udp:127.0.0.1:\(port.filter(\.isNumber))")
            try execution.send(signal: .terminate)
            var received = 0
            while let line = try await lines.next() { received = Int(line.filter(\.isNumber)) ?? received }
            return (run, received: received)
        }
        return result.closureResult
    }

    @Test(
        "a push to a lying SMP server ends by itself with no-progress and exit 75, after a limited number of bytes",
        arguments: [("alternating", 400_000), ("creeping", 12_000_000)])
    func lyingServer(way: String, most: Int) async throws {
        let (run, received) = try await Self.meet(way) { try await $0.push($1, image: "fw.signed.bin") }
        #expect(run.exit == 75, "\(run.err)")
        let error = try run.json().error
        #expect(error?.code?.string == "no-progress")
        #expect(error?.hint?.string?.contains("resume the update: otaflash push") == true)
        #expect(received > 0 && received < most, "\(received)")
    }

    @Test("--timeout ends a push to a server that does not answer, with timed-out and exit 75")
    func timeout() async throws {
        let (run, _) = try await Self.meet("silent") {
            try await $0.push($1, image: "fw.signed.bin", "--timeout", "1s")
        }
        #expect(run.exit == 75, "\(run.err)")
        let error = try run.json().error
        #expect(error?.code?.string == "timed-out")
        #expect(error?.hint?.string?.contains("otaflash push") == true)
        #expect(error?.hint?.string?.contains("--timeout 1s") == false)
    }

    /// The FIFO delays the start of the session by 2 s of real time. The push takes 9 s of virtual time.
    @Test("--timeout counts from the start of the command, not from the start of the session", arguments: [1, 2])
    func timeoutOfTheCommand(devices: Int) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 60_000)
        #expect(mkfifo(sandbox.path("fifo"), 0o600) == 0)
        var words: [String] = []
        for number in 1...devices {
            let made = try await sandbox.run(
                "simulate", "create", "d\(number)", "--product", "demo", "--version", "1.0.0", "--trust",
                "release.pub.pem")
            #expect(made.exit == 0, "\(made.err)")
            words += ["--device", "sim:d\(number)?pace=virtual&interval=210ms"]
        }
        for (limit, exit) in [("10s", 75), ("40s", 0)] as [(String, Int32)] {
            let run = try await sandbox.shell(
                "(sleep 2; cat fw.otaf >fifo) & exec \"$0\" \"$@\"",
                arguments: ["push", "fifo", "--plain", "--timeout", limit, "--trust", "release.pub.pem"]
                    + ["--format", "json", "--progress", "none"] + words)
            #expect(run.exit == exit, "\(run.out) \(run.err)")
            let json = try run.json()
            for error in devices == 1 ? [json.error] : [json.devices?[0]?.error, json.devices?[1]?.error] {
                #expect(error?.code?.string == (exit == 0 ? nil : "timed-out"))
                #expect(error?.message?.string?.contains("after 10 s") == (exit == 0 ? nil : true), "\(run.out)")
            }
        }
    }

    @Test("--timeout limits status, confirm and discard as well", arguments: ["status", "confirm", "discard"])
    func otherCommands(command: String) async throws {
        let (run, _) = try await Self.meet("silent") {
            try await $0.run(command, "--device", $1, "--timeout", "1s", "--format", "json")
        }
        #expect(run.exit == 75, "\(run.err)")
        #expect(try run.json().error?.code?.string == "timed-out")
    }

    @Test(
        "the error for a wrong --timeout has the value, the expected format and an example",
        arguments: [
            "0", "0s", "-1s", "1.", ".5", "1e3", "nan", "10 m", "m", "9999999999999999999h", "169h", "604801", "5d",
        ])
    func wrongDurations(text: String) async throws {
        let sandbox = try Sandbox()
        let run = try await sandbox.run("status", "--device", "sim:kitchen", "--timeout=\(text)")
        #expect(run.exit == 64)
        #expect(run.err.contains("'\(text)'") && run.err.contains("--timeout 10m"), "\(run.err)")
    }

    @Test(
        "--timeout accepts a number of seconds, and a number with s, m or h, in every command that has the option",
        arguments: ["10", "0.5", "30s", "1.5h", "10m", "168h"])
    func durations(text: String) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.create()
        let status = try await sandbox.run("status", "--device", "sim:kitchen", "--timeout", text)
        #expect(status.exit == 0, "\(status.err)")
        // Without a D-Bus daemon these commands end before they wait.
        let bus = ["DBUS_SYSTEM_BUS_ADDRESS": "unix:path=\(sandbox.path("none"))"]
        for words in [["scan"], ["gatt", "notify", "ble:AA:BB:CC:DD:EE:FF", "2a19"]] {
            let run = try await sandbox.run(words + ["--timeout", text], env: bus)
            #expect(run.exit == 69, "\(run.err)")
        }
    }
}
