import FakeBlueZ
import Testing

@Suite("Command status for several devices") struct ManyStatusTests {
    /// A sandbox with the bundle `fw.otaf`, a confirmed device `a`, a device `b` on trial, a device `c` with a partial upload, and a device
    /// `d` with SMP.
    private static func sandbox() async throws -> Sandbox {
        let sandbox = try Sandbox()
        try await sandbox.release()
        for (name, options) in [("a", []), ("b", []), ("c", []), ("d", ["--protocol", "smp"])] as [(String, [String])] {
            let made = try await sandbox.run(
                ["simulate", "create", name, "--product", "demo", "--version", "1.0.0", "--trust", "release.pub.pem"]
                    + options)
            #expect(made.exit == 0, "\(made.err)")
        }
        let push = ["push", "fw.otaf", "--trust", "release.pub.pem", "--progress", "none", "--device"]
        #expect(try await sandbox.run(push + ["sim:b?pace=virtual", "--no-confirm"]).exit == 0)
        #expect(try await sandbox.run(push + ["sim:c?pace=virtual&gone-at=0.5"]).exit == 75)
        return sandbox
    }

    private static let devices = ["sim:a", "sim:b", "sim:c", "sim:d", "sim:x"]

    @Test("the table has version, state, digest and trusted keys of each device, and the reason of a failed one")
    func table() async throws {
        let sandbox = try await Self.sandbox()
        try sandbox.write("bench.txt", Array(Self.devices.dropFirst().joined(separator: "\n").utf8))
        let run = try await sandbox.run("status", "--device", "sim:a", "--device-file", "bench.txt")
        #expect(run.exit == 79, "\(run.err)")
        let one = try await sandbox.run("status", "--device", "sim:b", "--format", "json").json()
        let key = try #require(one.device?.keys?[0]?.string)
        let digest = try #require(one.device?.manifest_sha256_prefix?.string)
        let lines = run.out.split(separator: "\n").map(String.init)
        func cells(_ line: String) -> String {
            line.split(separator: "  ").joined(separator: "|").replacing("| ", with: "|")
        }
        #expect(cells(lines[0]) == "DEVICE|VERSION|STATE|DIGEST|TRUSTED KEYS", "\(run.out)")
        #expect(cells(lines[1]) == "sim:a|1.0.0|confirmed|–|\(key)", "\(run.out)")
        #expect(cells(lines[2]) == "sim:b|1.1.0|on trial|\(digest)|\(key)", "\(run.out)")
        #expect(cells(lines[3]).hasPrefix("sim:c|1.0.0|partial upload|"), "\(run.out)")
        #expect(cells(lines[4]).hasPrefix("sim:d|1.0.0|confirmed|"), "\(run.out)")
        #expect(cells(lines[5]).hasPrefix("sim:x|–|no-such-device|–"), "\(run.out)")
        #expect(lines[6].hasPrefix("  no virtual device x") && lines[7].hasPrefix("  hint: "), "\(run.out)")
        #expect(run.err.contains("not read: 1 of 5 devices\n"), "\(run.err)")
        #expect(run.err.contains("hint: correct the causes, then run: otaflash status --device sim:a "), "\(run.err)")
    }

    @Test("in JSON, each device has the members of the status of one device, or its error")
    func json() async throws {
        let sandbox = try await Self.sandbox()
        let words = ["status", "--format", "json"]
        let run = try await sandbox.run(words + Self.devices.flatMap { ["--device", $0] })
        #expect(run.exit == 79, "\(run.err)")
        let json = try run.json()
        #expect(json.members == ["command", "devices", "error", "exit", "ok", "schema"])
        #expect(json.error?.code?.string == "devices-not-read" && json.ok?.bool == false && !json.holdsNull)
        for (index, device) in Self.devices.dropLast().enumerated() {
            let entry = try #require(json.devices?[index])
            let one = try await sandbox.run(words + ["--device", device]).json()
            #expect(entry.device == one.device && entry.slots == one.slots && entry.transfer == one.transfer)
            #expect(entry.ok?.bool == true && entry.exit?.number == 0 && entry.protocol?.string == one.protocol?.string)
        }
        let missing = try #require(json.devices?[4])
        #expect(missing.members == ["device", "error", "exit", "ok"] && missing.exit?.number == 69, "\(missing)")
        #expect(missing.error?.code?.string == "no-such-device" && missing.device?.members == ["given"])
        let good = try await sandbox.run(words + ["--device", "sim:a", "--device", "sim:b"])
        #expect(try good.exit == 0 && good.json().ok?.bool == true)
    }

    @Test("if only devices that cannot be reached failed, the exit code is 75")
    func unreachable() async throws {
        let sandbox = try await Self.sandbox()
        let run = try await sandbox.run("status", "--device", "sim:a", "--device", "serial:/dev/no-such-port")
        #expect(run.exit == 75 && run.err.contains("hint: run the command again: otaflash status "), "\(run.err)")
        for (words, text) in [
            ([], "Missing expected argument '--device <address>'"), (["--all", "--device", "sim:a"], "omit --device"),
            (["--device", "sim:a", "--device", "sim:a"], "is given twice"),
        ] as [([String], String)] {
            let refused = try await sandbox.run(["status"] + words)
            #expect(refused.exit == 64 && refused.err.contains(text), "\(refused.err)")
        }
    }

    @Test("--all shows the devices in range, and finding none is not an error")
    func inRange() async throws {
        try await World.run { world in
            let run = try await Sandbox().run("status", "--all", "--format", "json", in: world)
            #expect(run.exit == 0, "\(run.err)")
            #expect(try run.json().devices?.array?.map { $0.device?.address?.string } == [world.device], "\(run.out)")
            let none = try await Sandbox().run("status", "--all", "--protocol", "smp", in: world)
            #expect(none.exit == 0 && none.out == "No updatable device in range.\n", "\(none.out)\(none.err)")
        }
    }
}
