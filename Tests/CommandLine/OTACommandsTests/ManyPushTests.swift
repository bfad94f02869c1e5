import FakeBlueZ
import Glibc
import OTAFirmware
import Subprocess
import SystemPackage
import Testing

@Suite("Command push with several devices") struct ManyPushTests {
    /// A sandbox with the bundle `fw.otaf` and virtual devices that accept it.
    private static func sandbox(_ names: [String], size: Int = 20_000) async throws -> Sandbox {
        let sandbox = try Sandbox()
        try await sandbox.release(size: size)
        for name in names { try await Self.create(name, sandbox) }
        return sandbox
    }

    /// A sandbox with the bundle `fw.otaf` of an MCUboot image, which devices with both protocols accept, and virtual devices with the GATT OTA
    /// profile.
    private static func mixedSandbox(_ names: [String], _ options: String...) async throws -> Sandbox {
        let sandbox = try Sandbox()
        try await sandbox.mcuboot()
        let signed = try await sandbox.run(
            "sign", "fw.signed.bin", "--key", "release.pem", "-o", "fw.otaf", "--product", "demo")
        #expect(signed.exit == 0, "\(signed.err)")
        for name in names { try await Self.create(name, sandbox, options) }
        return sandbox
    }

    private static func create(_ name: String, _ sandbox: Sandbox, _ options: String...) async throws {
        try await create(name, sandbox, options)
    }

    private static func create(_ name: String, _ sandbox: Sandbox, _ options: [String]) async throws {
        let made = try await sandbox.run(
            ["simulate", "create", name, "--product", "demo", "--version", "1.0.0", "--trust", "release.pub.pem"]
                + options)
        #expect(made.exit == 0, "\(made.err)")
    }

    private static func push(_ sandbox: Sandbox, _ devices: [String], _ options: String...) async throws -> Run {
        try await sandbox.run(
            ["push", "fw.otaf"] + devices.flatMap { ["--device", $0] } + [
                "--trust", "release.pub.pem", "--format", "json", "--progress", "none",
            ] + options)
    }

    @Test("all devices are updated, and a second run sends nothing")
    func updatesAll() async throws {
        let names = ["a", "b", "c", "d", "e"]
        let sandbox = try await Self.sandbox(names)
        let devices = names.map { "sim:\($0)?pace=virtual" }
        let run = try await Self.push(sandbox, devices)
        #expect(run.exit == 0, "\(run.err)")
        let json = try run.json()
        #expect(json.members == ["bundle", "command", "devices", "exit", "ok", "schema", "seconds", "summary"])
        #expect(json.summary?.confirmed?.number == 5 && json.summary?.failed?.number == 0 && !json.holdsNull)
        for (index, device) in devices.enumerated() {
            let entry = try #require(json.devices?[index])
            #expect(
                entry.members == ["device", "exit", "ok", "outcome", "protocol", "seconds", "transfer"], "\(entry)")
            #expect(entry.device?.given?.string == device && entry.device?.running_version?.string == "1.1.0")
            #expect(entry.outcome?.string == "confirmed" && entry.exit?.number == 0)
        }
        let again = try await Self.push(sandbox, devices).json()
        #expect(again.summary?.already_running?.number == 5 && again.ok?.bool == true)
        #expect(again.devices?[4]?.transfer?.sent_bytes?.number == 0)
    }

    @Test("the devices of --device-file are updated; comments, empty lines and spaces in the file are ignored")
    func deviceFile() async throws {
        let sandbox = try await Self.sandbox(["a", "b", "c"])
        try sandbox.write(
            "list.txt", Array("\u{FEFF}sim:a?pace=virtual\r\n\n# bench\n   sim:b?pace=virtual  # left\n#sim:x\n".utf8))
        let run = try await Self.push(sandbox, ["sim:c?pace=virtual"], "--device-file", "list.txt")
        #expect(run.exit == 0, "\(run.err)")
        #expect(try run.json().summary?.confirmed?.number == 3)
        let one = try await Self.push(sandbox, [], "--device-file", "list.txt").json()
        #expect(one.summary?.already_running?.number == 2)
    }

    @Test("lists without a device, repeated devices and unusable files are refused before anything is sent")
    func refusals() async throws {
        let sandbox = try await Self.sandbox(["a"])
        try sandbox.write("empty.txt", Array("# nothing\n".utf8))
        try sandbox.write("twice.txt", Array("sim:a\n\nsim:a\n".utf8))
        let many = (0...1000).map { "sim:d\($0)\n" }.joined()
        try sandbox.write("thousand-and-one.txt", Array(many.utf8))
        try sandbox.write("bad.txt", Array("# bench\r\nsim:a\r\nkitchen\r\n".utf8))
        let cases: [([String], [String], Int32, String)] = [
            ([], ["--device-file", "empty.txt"], 64, "has no device address"),
            ([], ["--device-file", "twice.txt"], 64, "twice.txt, line 3: the device sim:a is given twice"),
            ([], ["--device-file", "bad.txt"], 64, "bad.txt, line 3: 'kitchen' is not a device address"),
            ([], ["--device-file", "none.txt"], 66, "none.txt"),
            ([], ["--device-file", "-"], 64, "cannot be standard input"),
            (["sim:a", "sim:a"], [], 64, "is given twice"),
            (["sim:a", "sim:a?pace=virtual"], [], 64, "is given twice"),
            (["sim:", "sim:demo"], [], 64, "is given twice"),
            (["udp:10.0.0.7", "udp:10.0.0.7:1337"], [], 64, "is given twice"),
            ([], ["--device-file", "thousand-and-one.txt"], 64, "at most 1000"),
            ((0..<2048).map { "sim:d\($0)" }, [], 64, "are too many: at most 4096"),
            (["sim:a", "sim:b"], ["--at-once", "0"], 64, "from 1 to 1000"),
            ([], [], 64, "--device"),
        ]
        for (devices, options, exit, text) in cases {
            let words = ["push", "fw.otaf"] + devices.flatMap { ["--device", $0] } + options
            let run = try await sandbox.run(words + ["--trust", "release.pub.pem"])
            #expect(run.exit == exit && run.err.contains(text), "\(words): \(run.err)")
        }
    }

    @Test(
        "a device that fails does not stop the others; the exit code is 75 if the same command can help, and otherwise 79"
    )
    func exitCodes() async throws {
        let sandbox = try await Self.sandbox(["a", "b", "c"])
        try await Self.create("lamp", sandbox, "--hardware", "7")
        let gone = "sim:b?pace=virtual&gone-at=0.5"
        let run = try await Self.push(sandbox, ["sim:a?pace=virtual", gone, "sim:missing"])
        #expect(run.exit == 79, "\(run.err)")
        let json = try run.json()
        #expect(json.error?.code?.string == "devices-not-updated" && json.exit?.number == 79)
        #expect(json.devices?[2]?.exit?.number == 69 && json.devices?[2]?.error?.code?.string == "no-such-device")
        #expect(json.summary?.confirmed?.number == 1 && json.summary?.failed?.number == 2)
        #expect(json.devices?[1]?.error?.code?.string == "link-lost" && json.devices?[1]?.exit?.number == 75)
        #expect(json.devices?[1]?.device?.given?.string == gone && json.devices?[1]?.outcome?.string == "failed")
        let hint = json.devices?[1]?.error?.hint?.string ?? ""
        #expect(
            hint.hasSuffix("otaflash push fw.otaf --device 'sim:b?pace=virtual' --trust release.pub.pem"), "\(hint)")

        // The same command again updates only the devices that do not run the image.
        let rerun = try await Self.push(sandbox, ["sim:a?pace=virtual", "sim:b?pace=virtual"])
        #expect(rerun.exit == 0)
        #expect(try rerun.json().summary?.already_running?.number == 1)
        #expect((try rerun.json().devices?[1]?.transfer?.resumed_from?.number ?? 0) > 0)

        let onlyLost = try await Self.push(sandbox, ["sim:a", "sim:c?pace=virtual&gone-at=0.5"])
        #expect(onlyLost.exit == 75)
        #expect(onlyLost.err.contains("hint: run the same command again"), "\(onlyLost.err)")
    }

    /// The long connection interval ends the trial of 1 s before the confirmation arrives.
    @Test("a device that rolls back stops all further starts; --keep-going starts them")
    func rollback() async throws {
        let sandbox = try await Self.sandbox(["b", "c", "d"])
        try await Self.create("a", sandbox, "--trial", "1")
        let devices = ["sim:a?pace=virtual&interval=300ms"] + ["b", "c", "d"].map { "sim:\($0)?pace=virtual" }
        let halted = try await Self.push(sandbox, devices)
        #expect(halted.exit == 78, "\(halted.err)")
        let json = try halted.json()
        #expect(json.devices?[0]?.error?.code?.string == "rolled-back")
        #expect(json.summary?.not_started?.number == 3 && json.devices?[3]?.members == ["device", "ok", "outcome"])
        let all = try await Self.push(sandbox, devices, "--keep-going")
        #expect(all.exit == 78)
        #expect(try all.json().summary?.confirmed?.number == 3)
    }

    @Test("the text result is a table with the reason and the hint below each failed device, and a sum")
    func table() async throws {
        let sandbox = try await Self.sandbox(["a", "b"])
        let run = try await sandbox.run(
            "push", "fw.otaf", "--device", "sim:a?pace=virtual", "--device", "sim:b?pace=virtual", "--device", "sim:x",
            "--trust", "release.pub.pem", "--progress", "none")
        let lines = run.out.split(separator: "\n")
        #expect(run.exit == 79 && lines[0].hasPrefix("DEVICE "), "\(run.out)")
        #expect(lines[1].hasPrefix("sim:a?pace=virtual  confirmed "), "\(lines[1])")
        #expect(lines[3].hasPrefix("sim:x               no-such-device  –  "), "\(lines[3])")
        #expect(lines[4].hasPrefix("  no virtual device x"), "\(lines[4])")
        #expect(lines[5].hasPrefix("  hint: ") && lines[1].contains("  1.0.0 → 1.1.0  "), "\(run.out)")
        #expect(lines[6].hasPrefix("3 devices: 2 confirmed, 1 failed; "), "\(lines[6])")
        #expect(run.err.contains("otaflash: error [no-such-device]: sim:x: no virtual device x"), "\(run.err)")
        #expect(run.err.contains("otaflash: error [devices-not-updated]: not updated: 1 of 3 devices"))
        #expect(run.err.contains("--device 'sim:b?pace=virtual' --device sim:x"), "\(run.err)")
        #expect(run.err.contains("hint: correct the causes, then run the same command again"), "\(run.err)")

        try sandbox.write("one.txt", Array("sim:x\n".utf8))
        let one = try await sandbox.run("push", "fw.otaf", "--device-file", "one.txt", "--trust", "release.pub.pem")
        #expect(one.out.contains("1 device: 1 failed; "), "\(one.out)")
        #expect(one.err.contains("not updated: 1 of 1 device\n"), "\(one.err)")
    }

    @Test("each line and each event of the progress names its device")
    func progress() async throws {
        let sandbox = try await Self.sandbox(["a", "b"])
        let words = [
            "push", "fw.otaf", "--device", "sim:a?pace=virtual", "--device", "sim:b?pace=virtual", "--trust",
            "release.pub.pem",
        ]
        let events = try await sandbox.run(words + ["--progress", "json"]).events()
        for name in ["a", "b"] {
            let own = events.filter { $0.device?.given?.string == "sim:\(name)?pace=virtual" }
            #expect(own.contains { $0.event?.string == "confirmed" }, "\(name)")
            #expect(own.first?.phase?.string == "connect")
        }
        #expect(events.allSatisfy { $0.device != nil })
        let lines = try await sandbox.run(words).err.split(separator: "\n")
        #expect(!lines.isEmpty && lines.allSatisfy { $0.hasPrefix("sim:a: ") || $0.hasPrefix("sim:b: ") }, "\(lines)")
    }

    @Test("a downgrade is a warning of its device in the table and in JSON, and the table has the previous version")
    func downgrade() async throws {
        let sandbox = try await Self.sandbox(["a"])
        for name in ["b", "c"] {
            let made = try await sandbox.run(
                "simulate", "create", name, "--product", "demo", "--version", "1.3.9", "--trust", "release.pub.pem")
            #expect(made.exit == 0, "\(made.err)")
        }
        let warning = "version 1.1.0 is lower than 1.3.9, the running version"
        let json = try await Self.push(sandbox, ["sim:a?pace=virtual", "sim:b?pace=virtual"]).json()
        #expect(json.devices?[0]?.warnings == nil && json.warnings == nil)
        #expect(json.devices?[1]?.warnings?.array?.map(\.string) == [warning])
        let text = try await sandbox.run(
            "push", "fw.otaf", "--device", "sim:b?pace=virtual", "--device", "sim:c?pace=virtual", "--trust",
            "release.pub.pem", "--progress", "lines")
        #expect(text.exit == 0 && text.out.contains("  1.3.9 → 1.1.0  "), "\(text.out)")
        #expect(text.out.hasSuffix("\nwarning: \(warning): sim:c?pace=virtual\n"), "\(text.out)")
        let made = try await sandbox.run(
            "simulate", "create", "d", "--product", "demo", "--version", "1.3.9", "--trust", "release.pub.pem")
        #expect(made.exit == 0, "\(made.err)")
        let single = try await Self.push(sandbox, ["sim:d?pace=virtual"])
        #expect(try single.json().warnings?.array?.map(\.string) == [warning], "\(single.out)")
    }

    @Test("the progress reports a failed device at once, before the other devices", arguments: ["json", "lines"])
    func failureAtOnce(_ style: String) async throws {
        let sandbox = try await Self.sandbox(["b"])
        let other = try await sandbox.run(
            "simulate", "create", "lamp", "--product", "lamp", "--version", "1.0.0", "--trust", "release.pub.pem")
        #expect(other.exit == 0, "\(other.err)")
        let run = try await sandbox.run(
            "push", "fw.otaf", "--device", "sim:lamp?pace=virtual", "--device", "sim:b?pace=virtual", "--trust",
            "release.pub.pem", "--at-once", "1", "--progress", style)
        #expect(run.exit == 79, "\(run.err)")
        let message = "the bundle is for demo, the device is lamp"
        guard style == "json" else {
            let lines = run.err.split(separator: "\n")
            let failure = lines.firstIndex {
                $0 == "otaflash: error [wrong-product]: sim:lamp?pace=virtual: \(message)"
            }
            let next = lines.firstIndex { $0.hasPrefix("sim:b: ") }
            #expect(try #require(failure) < #require(next), "\(run.err)")
            return
        }
        let events = try run.events()
        let failure = events.firstIndex {
            $0.event?.string == "error" && $0.device?.given?.string == "sim:lamp?pace=virtual"
                && $0.code?.string == "wrong-product" && $0.exit?.number == 77 && $0.message?.string == message
        }
        let next = events.firstIndex { $0.device?.given?.string == "sim:b?pace=virtual" }
        #expect(try #require(failure) < #require(next), "\(run.err)")
    }

    @Test("with 4 devices, the first device is updated before the others start; --first 0 starts all of them")
    func first() async throws {
        let sandbox = try await Self.sandbox(["a", "b", "c", "d"])
        let devices = ["a", "b", "c", "d"].map { "sim:\($0)?pace=virtual" }
        let words = ["push", "fw.otaf"] + devices.flatMap { ["--device", $0] }
        let run = try await sandbox.run(words + ["--trust", "release.pub.pem", "--progress", "json"])
        #expect(run.exit == 0, "\(run.err)")
        let events = try run.events()
        let confirmed = try #require(events.firstIndex { $0.event?.string == "confirmed" })
        #expect(events[...confirmed].allSatisfy { $0.device?.given?.string == devices[0] })
    }

    /// A UDP port of this machine that no program uses, so that the kernel refuses each packet.
    private static func closedPort() throws -> UInt16 {
        let file = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        defer { close(file) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(INADDR_LOOPBACK).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(file, $0, length) + getsockname(file, $0, &length)
            }
        }
        try #require(file >= 0 && result == 0)
        return UInt16(bigEndian: address.sin_port)
    }

    @Test("with a missing device at the beginning of the list, the others are updated, and the sums are consistent")
    func missingFirst() async throws {
        let names = ["a", "b", "c", "d", "e"]
        let sandbox = try await Self.mixedSandbox(names)
        let devices = try ["udp:127.0.0.1:\(Self.closedPort())"] + names.map { "sim:\($0)?pace=virtual" }
        let run = try await Self.push(sandbox, devices)
        #expect(run.exit == 75, "\(run.err)")
        let json = try run.json()
        #expect(json.summary?.confirmed?.number == 5 && json.summary?.failed?.number == 1)
        #expect(json.summary?.not_started?.number == 0)
        #expect(json.devices?[0]?.error?.code?.string == "no-such-device", "\(run.out)")
    }

    /// Each device rolls back, because the long connection interval ends its trial of 1 s before the confirmation arrives.
    @Test("a bad image reaches only one device, although several devices are asked after a missing device")
    func badImage() async throws {
        let names = ["a", "b", "c", "d", "e"]
        let sandbox = try await Self.mixedSandbox(names, "--trial", "1")
        let devices = try ["udp:127.0.0.1:\(Self.closedPort())"] + names.map { "sim:\($0)?pace=virtual&interval=300ms" }
        let run = try await Self.push(sandbox, devices)
        #expect(run.exit == 78, "\(run.err)")
        let json = try run.json()
        let entries = try #require(json.devices?.array)
        #expect(entries.count { $0.error?.code?.string == "rolled-back" } == 1, "\(run.out)")
        #expect(json.summary?.not_started?.number == 4 && json.summary?.failed?.number == 2)
        for (name, entry) in zip(names, entries.dropFirst()) where entry.outcome?.string == "not-started" {
            #expect(entry.members == ["device", "ok", "outcome"], "\(entry)")
            let status = try await sandbox.run("status", "--device", "sim:\(name)", "--format", "json").json()
            #expect(status.device?.running_version?.string == "1.0.0", "\(status)")
            #expect(status.device?.state?.string == "idle" && status.transfer == nil, "\(status)")
        }
    }

    @Test("if all devices are missing, each has its failure, and the push ends with 75 and one next step")
    func allMissing() async throws {
        let sandbox = try await Self.mixedSandbox([])
        let port = try Self.closedPort()
        let devices = (1...4).map { "udp:127.0.0.\($0):\(port)" }
        let run = try await Self.push(sandbox, devices)
        #expect(run.exit == 75, "\(run.err)")
        #expect(try run.json().summary?.failed?.number == 4)
        let hints = run.err.split(separator: "\n").filter { $0.contains("hint:") }
        #expect(hints.count == 2 && hints[1].contains("failed-push.log"), "\(run.err)")
    }

    @Test("a dry run of several devices reports each plan and changes nothing")
    func dryRun() async throws {
        let sandbox = try await Self.sandbox(["a", "b"])
        let devices = ["sim:a?pace=virtual", "sim:b?pace=virtual"]
        for _ in 0..<2 {
            let json = try await Self.push(sandbox, devices, "--dry-run").json()
            #expect(json.summary?.would_update?.number == 2 && json.ok?.bool == true)
            #expect(json.devices?[0]?.plan?.bytes?.number == 20_000)
        }
    }

    @Test("SIGINT stops the running pushes with exit 130, and the devices keep their received bytes")
    func interrupt() async throws {
        let sandbox = try await Self.sandbox(["a", "b", "c"], size: 400_000)
        let devices = ["a", "b", "c"]
        let words =
            ["push", "fw.otaf"] + devices.flatMap { ["--device", "sim:\($0)"] } + [
                "--trust", "release.pub.pem", "--progress", "json", "--format", "json", "--at-once", "2",
            ]
        let result = try await Subprocess.run(
            .path(Sandbox.binary), arguments: Arguments(words), environment: sandbox.environment(),
            workingDirectory: sandbox.folder, input: .none, output: .string(limit: 1 << 16), error: .sequence
        ) { execution in
            var isSent = false
            for try await line in execution.standardError.strings()
            where !isSent && line.contains("\"event\":\"progress\"") {
                isSent = true
                try execution.send(signal: .interrupt)
            }
        }
        #expect(result.terminationStatus == .exited(130))
        let json = try JSONValue(parsing: result.standardOutput)
        #expect(json.summary?.not_started?.number == 1 && json.summary?.failed?.number == 2)
        #expect(json.devices?[2]?.outcome?.string == "not-started" && json.devices?[2]?.exit == nil)
        #expect(json.devices?[0]?.error?.code?.string == "interrupted")
        #expect(json.error?.hint?.string?.hasPrefix("to continue, run the same command again") == true)
    }

    @Test("devices with SMP report the image, and the fields of a bundle that were not checked")
    func overSMP() async throws {
        let sandbox = try Sandbox()
        try await sandbox.mcuboot()
        for name in ["a", "b"] { try await Self.create(name, sandbox, "--protocol", "smp") }
        let devices = ["sim:a?pace=virtual", "sim:b?pace=virtual"]
        func push(_ file: String, _ options: String...) async throws -> JSONValue {
            let run = try await sandbox.run(
                ["push", file] + devices.flatMap { ["--device", $0] } + [
                    "--trust", "release.pub.pem", "--format", "json", "--progress", "none",
                ] + options)
            #expect(run.exit == 0, "\(run.err)")
            return try run.json()
        }
        let uploaded = try await push("fw.signed.bin", "--upload-only")
        #expect(uploaded.image?.version?.string == "1.1.0" && uploaded.summary?.uploaded?.number == 2)
        let signed = try await sandbox.run(
            "sign", "fw.signed.bin", "--key", "release.pem", "-o", "fw.otaf", "--product", "demo", "--hardware", "7")
        #expect(signed.exit == 0, "\(signed.err)")
        let trial = try await push("fw.otaf", "--unchecked-target", "--no-confirm")
        #expect(trial.summary?.on_trial?.number == 2 && trial.bundle?.product?.string == "demo")
        #expect(trial.devices?[1]?.unchecked?.array?.map(\.string) == ["hardware"])
        #expect(trial.devices?[1]?.outcome?.string == "on-trial")
    }

    @Test(
        "while another process uses the Bluetooth adapter, a push to several devices is refused, and a push to one is not"
    )
    func adapterLock() async throws {
        try await World.run { world in
            let sandbox = try Sandbox()
            try await sandbox.releaseForWorld()
            // The lock file of the adapter is in the state folder, because the tests do not set XDG_RUNTIME_DIR.
            func push(_ lock: String, _ devices: [String]) async throws -> Run {
                try await sandbox.shell(
                    "mkdir -p state && exec flock \(lock) state/hci0.lock \"$0\" \"$@\"",
                    arguments: ["push", "fw.otaf"] + devices.flatMap { ["--device", $0] } + [
                        "--trust", "world.pub.pem", "--format", "json", "--progress", "none",
                    ], env: Sandbox.environment(of: world))
            }
            let several = try await push("--shared", [world.device, "sim:x"])
            #expect(several.exit == 75, "\(several.err)")
            #expect(try several.json().error?.code?.string == "device-in-use")
            let one = try await push("--exclusive", [world.device])
            #expect(one.exit == 75, "\(one.err)")
            #expect(try one.json().error?.message?.string?.contains("hci0") == true, "\(one.out)")
            let shared = try await push("--shared", [world.device])
            #expect(shared.exit == 0, "\(shared.err)")
            #expect(try shared.json().outcome?.string == "confirmed")
        }
    }

    @Test("a Bluetooth device and a virtual device are updated in one push")
    func mixedTransports() async throws {
        try await World.run { world in
            let sandbox = try Sandbox()
            try await sandbox.releaseForWorld()
            let made = try await sandbox.run(
                "simulate", "create", "a", "--product", "demo", "--version", "1.0.0", "--trust", "world.pub.pem")
            #expect(made.exit == 0, "\(made.err)")
            let run = try await sandbox.run(
                "push", "fw.otaf", "--device", world.device, "--device", "sim:a?pace=virtual", "--trust",
                "world.pub.pem", "--format", "json", in: world)
            #expect(run.exit == 0, "\(run.err)")
            #expect(try run.json().summary?.confirmed?.number == 2)
            #expect(try run.json().devices?[0]?.device?.address?.string == world.device)
            try await world.until("no link is left") { try await !world.isConnected }
        }
    }

    @Test("on a terminal, each device has one line during the push, and the lines are erased before the table")
    func terminal() async throws {
        let sandbox = try await Self.sandbox(["a", "b"])
        let text = try await sandbox.onTerminal(
            "push", "fw.otaf", "--device", "sim:a?pace=virtual", "--device", "sim:b?pace=virtual", "--trust",
            "release.pub.pem", columns: 100
        ).screen
        #expect(text.contains("sim:a?pace=virtual") && text.contains("2 of 2 devices ended"), "\(text)")
        #expect(text.contains("\u{1B}[J"), "\(text)")
        #expect(text.contains("2 devices: 2 confirmed"), "\(text)")
        #expect(text.contains("confirmed 1.1.0"), "\(text)")
    }

    /// Two boards at stable paths, as Linux names them. The ports do not exist on this machine.
    private static let boards = ["7081", "7099"].map {
        "serial:/dev/serial/by-id/usb-ZEPHYR_Zephyr_USB_console_8F2A3C4D5E6F\($0)-if00"
    }

    @Test("two boards at /dev/serial/by-id differ in the table, complete in a pipe and on a terminal, and in the bar")
    func longAddresses() async throws {
        let sandbox = try await Self.sandbox(["a"])
        let words =
            ["push", "fw.otaf", "--device", "sim:a?pace=virtual", "--trust", "release.pub.pem"]
            + Self.boards.flatMap { ["--device", $0] }
        let pipe = try await sandbox.run(words).out
        let screen = try await sandbox.onTerminal(words).screen
        for (board, end) in zip(Self.boards, ["7081-if00", "7099-if00"]) {
            #expect(pipe.split(separator: "\n").contains { $0.hasPrefix("\(board)  wrong-image-format ") }, "\(pipe)")
            #expect(screen.contains("\r\n\(board)\r\n                    wrong-image-format  "), "\(screen)")
            #expect(screen.contains("…") && screen.contains("\(end)  "), "\(screen)")
        }
        // The lines of the table; the lines below a failed device contain commands and are never cut.
        let table = try #require(screen.split(separator: "DEVICE").last).split(separator: "\r\n")
            .filter { $0.hasSuffix(" s") }
        #expect(table.count == 3 && table.allSatisfy { $0.count <= 80 }, "\(table)")
    }

    @Test(
        "with more devices than lines on the terminal, the bar still shows a failed device, and the number of failures")
    func manyRows() async throws {
        let names = (1...24).map { "d\($0)" }
        let sandbox = try await Self.sandbox(names, size: 1000)
        let screen = try await sandbox.onTerminal(
            ["push", "fw.otaf", "--trust", "release.pub.pem", "--first", "0", "--at-once", "1"]
                + names.flatMap { ["--device", "sim:\($0)?pace=virtual"] } + ["--device", "udp:127.0.0.1:9"]
        ).screen
        let frames = screen.split(separator: "\u{1B}[J").filter { $0.contains("25 of 25 devices ended") }
        let last = try #require(frames.last, "\(screen)")
        #expect(last.contains("udp:127.0.0.1:9") && last.contains("refused: wrong image format"), "\(last)")
        #expect(last.contains("25 of 25 devices ended, 1 failed") && last.contains("confirmed 1.1.0"), "\(last)")
    }

    @Test("without bluetoothd, a push to several devices ends with 69, also if other devices are not reachable")
    func withoutBluetooth() async throws {
        let sandbox = try await Self.mixedSandbox([])
        let words = ["push", "fw.otaf", "--trust", "release.pub.pem", "--progress", "none"]
        let devices = ["ble:02:00:00:00:00:01", "udp:127.0.0.1:\(try Self.closedPort())"].flatMap { ["--device", $0] }
        let run = try await sandbox.run(
            words + devices, env: ["DBUS_SYSTEM_BUS_ADDRESS": "unix:path=\(sandbox.path("none"))"])
        #expect(run.exit == 69, "\(run.out)\(run.err)")
    }

    @Test("a device that is never found has one error event, and one error line", arguments: ["json", "lines"])
    func neverFound(_ style: String) async throws {
        let sandbox = try await Self.mixedSandbox(["a"])
        let missing = try "udp:127.0.0.1:\(Self.closedPort())"
        let run = try await sandbox.run(
            "push", "fw.otaf", "--device", missing, "--device", "sim:a?pace=virtual", "--trust", "release.pub.pem",
            "--progress", style)
        if style == "lines" {
            let start = "otaflash: error [no-such-device]: \(missing): "
            let errors = run.err.split(separator: "\n").filter { $0.hasPrefix(start) }
            #expect(errors.count == 1, "\(run.err)")
        } else {
            let errors = try run.events().filter { $0.event?.string == "error" && $0.device != nil }
            #expect(errors.map { $0.device?.given?.string } == [missing], "\(run.err)")
            #expect(errors.first?.code?.string == "no-such-device", "\(run.err)")
        }
    }
}

/// One process for each device. The name excludes the suite from debug runs.
@Suite("A push to 100 devices over UDP") struct ExhaustiveManyUDPTests {
    @Test("100 devices over UDP are confirmed in one push")
    func hundredDevices() async throws {
        let sandbox = try Sandbox()
        try await sandbox.mcuboot()
        let run = try await sandbox.shell(
            """
            set -eu
            "$0" simulate create d1 --protocol smp --product demo --version 1.0.0 --trust release.pub.pem >/dev/null
            pids=
            trap 'kill $pids; wait' EXIT
            for i in $(seq 100); do
                [ $i = 1 ] || cp -r state/d1 state/d$i
                "$0" simulate serve d$i --udp 0 2>d$i.log >/dev/null & pids="$pids $!"
            done
            for i in $(seq 100); do
                until grep -q ' is at ' d$i.log; do sleep 0.05; done
                sed -n 's/.* is at //p' d$i.log >>list
            done
            "$0" "$@"
            """,
            arguments: [
                "push", "fw.signed.bin", "--device-file", "list", "--trust", "release.pub.pem", "--format", "json",
                "--progress", "none",
            ])
        #expect(run.exit == 0, "\(run.err)")
        #expect(try run.json().summary?.confirmed?.number == 100, "\(run.out.suffix(300))")
    }
}
