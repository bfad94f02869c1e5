import FakeBlueZ
import FoundationEssentials
import Glibc
import OTACommands
import OTAFirmware
import SystemPackage
import Testing

@Suite("Option --log") struct LogTests {
    private func released() async throws -> Sandbox {
        let sandbox = try Sandbox()
        try await sandbox.release()
        return sandbox
    }

    private func text(_ sandbox: Sandbox, _ name: String = "push.log") throws -> String {
        String(decoding: try sandbox.read(name), as: UTF8.self)
    }

    private let push = [
        "push", "fw.otaf", "--device", "sim:?pace=virtual&drop-at=0.5", "--trust", "release.pub.pem", "--log",
        "push.log",
    ]

    /// The bytes behind `mark` in each line of the log.
    private func frames(_ mark: String, in log: String) -> [[UInt8]] {
        log.split(separator: "\n").filter { $0.contains(mark) }
            .compactMap { $0.split(separator: " ").last.flatMap { bytes(String($0)) } }
    }

    private func bytes(_ hex: String) -> [UInt8]? {
        let digits = Array(hex)
        guard digits.count.isMultiple(of: 2) else { return nil }
        let bytes = stride(from: 0, to: digits.count, by: 2).compactMap {
            UInt8(String(digits[$0...$0 + 1]), radix: 16)
        }
        return bytes.count * 2 == digits.count ? bytes : nil
    }

    /// A Data value is a sequence number of 2 bytes and a chunk (docs/ota-profile.md).
    @Test("with --log-data, the log of a push has each frame in both directions, the versions and the arguments")
    func everyFrame() async throws {
        let sandbox = try await released()
        let run = try await sandbox.run(
            push.map { $0.replacing("&drop-at=0.5", with: "") } + ["--quiet", "--log-data"])
        #expect(run.exit == 0 && run.err.isEmpty, "\(run.err)")
        let log = try text(sandbox)
        let sent = frames(" > send data ", in: log).flatMap { $0.dropFirst(2) }
        let bundle = try sandbox.read("fw.otaf")
        let image = try sandbox.read("fw.bin")
        #expect(sent.count > image.count && Array(sent.suffix(image.count)) == image)
        // The envelope is sent before the image. The bundle has both.
        #expect(bundle.count >= sent.count)
        for part in [
            " > write control 0", " < notified control 8", " < value info ", " < value version ",
            "link open: values of at most 244 bytes (MTU 247); channels: control, data",
            "debug: otaflash push fw.otaf --device 'sim:?pace=virtual' --trust release.pub.pem --log push.log --quiet --log-data\n",
            "versions: otaflash ", "; libcrypto ", ", libdbus ", ", Linux ", "note: created the virtual device demo",
            "result: demo (sim:demo, GATT OTA profile) now runs 1.1.0", "exit: 0\n",
        ] { #expect(log.contains(part), "\(part)") }
        for line in log.split(separator: "\n").dropFirst() {
            #expect(line.firstMatch(of: #/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \d+ [a-z]+: /#) != nil, "\(line)")
        }
        var status = stat()
        #expect(stat(sandbox.path("push.log"), &status) == 0 && status.st_mode & 0o777 == 0o600)
    }

    /// The pieces of 16 bytes of a file that the log has as hex digits.
    private func pieces(of file: [UInt8], in log: String) -> Int {
        stride(from: 0, to: file.count - 16, by: 100).count { log.contains(Hex.encode(file[$0..<$0 + 16])) }
    }

    @Test("without --log-data, the log has each frame, and no bytes of the firmware", arguments: ["ota", "smp"])
    func withoutFirmware(of updateProtocol: String) async throws {
        let sandbox = try Sandbox()
        try await sandbox.mcuboot()
        try await sandbox.create("--protocol", updateProtocol)
        let signed = try await sandbox.run(
            "sign", "fw.signed.bin", "--key", "release.pem", "-o", "fw.otaf", "--product", "demo")
        #expect(signed.exit == 0, "\(signed.err)")
        let words =
            [
                "push", "fw.otaf", "--device", "sim:kitchen?pace=virtual", "--trust", "release.pub.pem", "--plain",
            ] + (updateProtocol == "smp" ? ["--unchecked-target"] : [])
        #expect(try await sandbox.run(words + ["--log", "push.log", "--dry-run"]).exit == 0)
        let run = try await sandbox.run(words + ["--log", "push.log"])
        #expect(run.exit == 0, "\(run.err)")
        let image = try sandbox.read("fw.signed.bin")
        let log = try text(sandbox)
        #expect(pieces(of: image, in: log) == 0)
        let hidden = log.matches(of: #/> send (?:data|smp) (?:[0-9a-f]+ and )?(\d+) bytes of the update\n/#)
            .reduce(0) { $0 + (Int($1.1) ?? 0) }
        #expect(hidden >= image.count, "\(log.prefix(4000))")

        let again = try await sandbox.run(words + ["--log", "all.log", "--log-data", "--dry-run"])
        #expect(again.exit == 0)
        let alone = try await sandbox.run(words + ["--log-data"])
        #expect(alone.exit == 64 && alone.err.contains("--log-data requires --log."), "\(alone.err)")
    }

    @Test("in the log of several devices, each line about a device begins with its address, also with --verbose")
    func severalDevices() async throws {
        let sandbox = try await released()
        for name in ["a", "b"] {
            let made = try await sandbox.run(
                "simulate", "create", name, "--product", "demo", "--version", "1.0.0", "--trust", "release.pub.pem")
            #expect(made.exit == 0, "\(made.err)")
        }
        let run = try await sandbox.run(
            "push", "fw.otaf", "--device", "sim:a?pace=virtual", "--device", "sim:b?pace=virtual", "--device", "sim:x",
            "--trust", "release.pub.pem", "--log", "push.log", "--verbose")
        #expect(run.exit == 79, "\(run.err)")
        let lines = try text(sandbox).split(separator: "\n").dropFirst()
        let texts = lines.compactMap { line in line.firstRange(of: ": ").map { line[$0.upperBound...] } }
        let ofAll = [
            "otaflash push", "trusted: ", "versions: ", "environment: ", "bases: ", "links are ",
            "devices-not-updated: ",
        ]
        let kinds = [" result: ", " hint: ", " exit: "]
        for (line, text) in zip(lines, texts) where !kinds.contains(where: line.contains) {
            #expect(
                text.hasPrefix("sim:a?pace=virtual: ") || text.hasPrefix("sim:b?pace=virtual: ")
                    || text.hasPrefix("sim:x: ") || ofAll.contains(where: text.hasPrefix), "\(line)")
        }
        #expect(texts.count == lines.count && texts.contains { $0.contains(" > write control ") })
        let shown = run.err.split(separator: "\n").filter { $0.hasPrefix("otaflash: debug: ") }.map { $0.dropFirst(17) }
        #expect(shown == zip(lines, texts).filter { $0.0.contains(" debug: ") }.map(\.1))
    }

    @Test("a failed push without --log leaves its log in the state folder, and the hint names it")
    func failedPush() async throws {
        let sandbox = try await released()
        let file = sandbox.state.appending("failed-push.log")
        let words = ["push", "fw.otaf", "--trust", "release.pub.pem", "--format", "json", "--device"]
        #expect(try await sandbox.run(words + ["sim:?pace=virtual&gone-at=0.5", "--log", "push.log"]).exit == 75)
        #expect(access(file.string, F_OK) != 0)
        // The file is never written through a link.
        try sandbox.write("other", Array("other\n".utf8))
        #expect(symlink(sandbox.path("other"), file.string) == 0)
        let failed = try await sandbox.run(words + ["sim:?pace=virtual&gone-at=0.6"])
        #expect(failed.exit == 75)
        let hint = "for a bug report, attach the log of this push: \(file)"
        #expect(failed.err.contains("otaflash: hint: \(hint)\n"), "\(failed.err)")
        #expect(try failed.json().error?.hint?.string?.hasSuffix("\n\(hint)") == true)
        #expect(try sandbox.read("other") == Array("other\n".utf8))
        var status = stat()
        #expect(lstat(file.string, &status) == 0 && status.st_mode == S_IFREG | 0o600)
        let log = String(decoding: try sandbox.read(file), as: UTF8.self)
        for part in [
            "# otaflash log", "debug: otaflash push fw.otaf", "debug: versions: ", " > write control ",
            " error: link-lost: ", " exit: 75\n",
        ] { #expect(log.contains(part), "\(part)") }
        #expect(pieces(of: try sandbox.read("fw.bin"), in: log) == 0)

        // A failure before the session needs no log, and keeps the earlier one. A push that succeeds also keeps it.
        let refused = try await sandbox.run("push", "none.otaf", "--device", "sim:", "--trust", "release.pub.pem")
        #expect(refused.exit == 66 && !refused.err.contains("failed-push.log"), "\(refused.err)")
        #expect(try await sandbox.run(words + ["sim:?pace=virtual"]).exit == 0)
        #expect(String(decoding: try sandbox.read(file), as: UTF8.self) == log)

        let several = try await sandbox.run(words + ["sim:?pace=virtual", "--device", "sim:x"])
        #expect(several.exit == 79 && several.err.contains(hint), "\(several.err)")
        let own = String(decoding: try sandbox.read(file), as: UTF8.self)
        #expect(own.contains(" sim:x: no-such-device: ") && !own.contains("debug: sim:?pace=virtual: "), "\(own)")
    }

    @Test("the log of a failed push keeps the arguments and the last lines of each device, at most 2 MiB")
    func bounded() {
        let recent = RecentLog()
        recent.write(LogEntry(level: "debug", device: nil, text: "the arguments"))
        for number in 0..<40_000 {
            let text = "line \(number) \(String(repeating: "x", count: 100))"
            recent.write(LogEntry(level: "trace", device: nil, text: text))
            for device in ["a", "b"] where number < 5000 {
                recent.write(LogEntry(level: "trace", device: device, text: text))
            }
        }
        let lines = recent.text.split(separator: "\n")
        #expect(lines.first?.hasSuffix(" debug: the arguments") == true && lines.last?.contains(" line 39999 ") == true)
        #expect(lines.contains { $0.contains(" a: line 4999 ") } && !lines.contains { $0.contains(" a: line 0 ") })
        #expect(recent.text.utf8.count < 3 * 257 << 10, "\(recent.text.utf8.count)")
        recent.remove("a")
        #expect(!recent.text.contains(" a: "))
        for device in 0..<100 {
            for number in 0..<300 {
                let text = "line \(number) \(String(repeating: "x", count: 100))"
                recent.write(LogEntry(level: "trace", device: "d\(device)", text: text))
            }
        }
        #expect(recent.text.utf8.count < 21 << 17, "\(recent.text.utf8.count)")
        #expect((0..<100).allSatisfy { recent.text.contains(" d\($0): line 299 ") })
    }

    @Test("a second command appends to the log, with its failure")
    func appends() async throws {
        let sandbox = try await released()
        #expect(try await sandbox.run(push).exit == 0)
        let first = try text(sandbox)
        #expect(first.contains(" < link ended: link-lost: "))
        let failed = try await sandbox.run("status", "--device", "sim:absent", "--log", "push.log")
        #expect(failed.exit == 69)
        let both = try text(sandbox)
        #expect(both.hasPrefix(first) && both.hasSuffix(" exit: 69\n"))
        #expect(both.contains(" error: no-such-device: no virtual device absent") && both.contains(" hint: "))
        #expect(both.components(separatedBy: "# otaflash log").count == 2)
    }

    @Test("--verbose has the same lines as the log, without frames")
    func verbose() async throws {
        let sandbox = try await released()
        let run = try await sandbox.run(push + ["--verbose"])
        #expect(run.exit == 0)
        let log = try text(sandbox)
        let logged = log.split(separator: "\n").compactMap { line in
            line.firstRange(of: " debug: ").map { String(line[$0.upperBound...]) }
        }
        let shown = run.err.split(separator: "\n").compactMap { line in
            line.hasPrefix("otaflash: debug: ") ? String(line.dropFirst(17)) : nil
        }
        #expect(shown == logged && shown.contains { $0.hasPrefix("versions: ") } && log.contains(" trace: "))
        #expect(!run.err.contains("send data"))
    }

    @Test("a file that is not a log is refused and not changed, with exit 73")
    func anotherFile() async throws {
        let sandbox = try await released()
        let before = try sandbox.read("fw.otaf")
        for name in ["fw.otaf", "home", "no/such/folder/log"] {
            let run = try await sandbox.run("verify", "fw.otaf", "--trust", "release.pub.pem", "--log", name)
            #expect(run.exit == 73 && run.out.isEmpty, "\(name): \(run.err)")
            #expect(run.err.contains(name) && run.err.contains("otaflash: hint: "))
        }
        #expect(try sandbox.read("fw.otaf") == before)
        #expect(mkfifo(sandbox.path("fifo"), 0o600) == 0)
        #expect(try await sandbox.run("verify", "fw.otaf", "--trust", "release.pub.pem", "--log", "fifo").exit == 73)
    }

    @Test("a link, and a device other than /dev/null, are refused as a log, and nothing is written through them")
    func links() async throws {
        let sandbox = try await released()
        #expect(symlink("home/.bash_login", sandbox.path("dangling.log")) == 0)
        #expect(symlink("empty", sandbox.path("linked.log")) == 0)
        try sandbox.write("empty", [])
        #expect(link(sandbox.path("empty"), sandbox.path("hard.log")) == 0)
        for name in ["dangling.log", "linked.log", "hard.log", "/dev/full", "/dev/stderr"] {
            let run = try await sandbox.run("verify", "fw.otaf", "--trust", "release.pub.pem", "--log", name)
            #expect(run.exit == 73 && run.out.isEmpty && run.err.contains("the log \(name) is "), "\(name): \(run.err)")
        }
        #expect(access(sandbox.path("home/.bash_login"), F_OK) != 0)
        #expect(try sandbox.read("empty").isEmpty)
        let null = try await sandbox.run("verify", "fw.otaf", "--trust", "release.pub.pem", "--log", "/dev/null")
        #expect(null.exit == 0)
    }

    // The thread sanitizer does not start under this limit (scripts/sanitize).
    @Test("a log above the file size limit of the shell is reported once, and the command continues")
    func noFileSize() async throws {
        let sandbox = try await released()
        // The signal of the kernel is ignored, so the limit is an error of the write.
        let limited = try await sandbox.shell(
            "(ulimit -f 0; \"$0\" \"$@\" 2>&1; echo \"exit $?\") | cat", "verify", "fw.otaf", "--trust",
            "release.pub.pem", "--log", "new.log")
        #expect(limited.out.contains("cannot write the log new.log: ") && limited.out.hasSuffix("exit 0\n"))
    }

    @Test("a private key or a passphrase as an argument is refused, not repeated, and not logged")
    func secretArguments() async throws {
        let sandbox = try await released()
        let key = String(decoding: try sandbox.read("release.pem"), as: UTF8.self)
        for words in [
            ["--key", key], ["--key=\(key)"], ["--key", "env:\(key)"],
            ["--key", "release.pem", "--passphrase-env", "not a name"],
        ] {
            let run = try await sandbox.run(
                ["sign", "fw.bin", "--product", "d", "--version", "1.0.0", "-o", "z", "--log", "secret.log"] + words)
            #expect(
                run.exit == 64 && !run.err.contains("PRIVATE KEY-----\n") && !run.err.contains("not a name'"),
                "\(run.err)")
            #expect(!sandbox.exists("secret.log") && !sandbox.exists("z"))
        }
    }

    @Test("a log that is also the standard output is refused, and an incomplete entry is ended before the next one")
    func sharedLog() async throws {
        let sandbox = try await released()
        let script = #""$0" inspect fw.bin --log both.txt >both.txt"#
        #expect(try await sandbox.shell(script).exit == 73)
        let run = push.dropLast() + ["push.log"]
        #expect(try await sandbox.run(Array(run)).exit == 0)
        try sandbox.write("push.log", Array(try sandbox.read("push.log").dropLast(5)))
        #expect(try await sandbox.run("inspect", "fw.bin", "--log", "push.log").exit == 0)
        let log = try text(sandbox, "push.log")
        #expect(
            log.split(separator: "\n").contains { $0.hasSuffix("debug: otaflash inspect fw.bin --log push.log") },
            "\(log)")
    }

    @Test("the log contains no passkey, no passphrase and no private key")
    func secrets() async throws {
        let sandbox = try Sandbox()
        let made = try await sandbox.run(
            "keygen", "release", "--encrypt", "--passphrase-env", "WORD", "--log", "all.log",
            env: ["WORD": "correct horse 8841"])
        #expect(made.exit == 0)
        try sandbox.write("fw.bin", Sandbox.image(2000))
        let signed = try await sandbox.run(
            "sign", "fw.bin", "--key", "release.pem", "--product", "demo", "--version", "1.1.0", "--passphrase-env",
            "WORD",
            "--log", "all.log", env: ["WORD": "correct horse 8841"])
        #expect(signed.exit == 0, "\(signed.err)")
        for passkey in [["--passkey", "482913"], ["--passkey=482913"]] {
            let run = try await sandbox.run(["status", "--device", "sim:", "--log", "all.log"] + passkey)
            #expect(run.exit == 64)
        }
        let log = try text(sandbox, "all.log")
        for secret in ["correct horse", "8841", "482913", "BEGIN"] { #expect(!log.contains(secret), "\(secret)") }
        #expect(log.contains("--passkey '***'") || log.contains("--passkey ***"))
        #expect(log.contains("--passphrase-env WORD"))
    }

    @Test("the log of a Bluetooth command names the adapter, the MTU and D-Bus errors")
    func bluetooth() async throws {
        try await World.run { world in
            let sandbox = try Sandbox()
            try await sandbox.releaseForWorld()
            _ = try await sandbox.run("scan", "--timeout", "1s", "--log", "scan.log", in: world)
            let log = try text(sandbox, "scan.log")
            #expect(log.contains("debug: connected ") && log.contains("DBUS_SYSTEM_BUS_ADDRESS="), "\(log)")
            #expect(log.contains(" mtu=") && log.contains(" object=/org/bluez/hci0/dev_"), "\(log)")
        }
        let sandbox = try Sandbox()
        let failed = try await sandbox.run(
            "scan", "--log", "scan.log", env: ["DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent"])
        #expect(failed.exit == 69)
        #expect(try text(sandbox, "scan.log").contains("error: link-unavailable: "))
    }

    @Test("text of the arguments with control characters is escaped in the log")
    func controlCharacters() async throws {
        let sandbox = try Sandbox()
        _ = try await sandbox.run("status", "--device", "sim:\u{1B}[31m\nexit: 0", "--log", "a.log")
        let log = try text(sandbox, "a.log")
        #expect(!log.contains("\u{1B}") && !log.split(separator: "\n").contains { $0.hasPrefix("exit: 0") }, "\(log)")
    }
}
