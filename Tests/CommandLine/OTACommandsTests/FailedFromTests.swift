import Testing

@Suite("Command push --failed-from") struct FailedFromTests {
    /// A sandbox with the bundle `fw.otaf` for `demo`, and virtual devices for `demo` and one for `lamp`.
    private static func sandbox() async throws -> Sandbox {
        let sandbox = try Sandbox()
        try await sandbox.release()
        for (name, product) in [("a", "demo"), ("b", "demo"), ("lamp", "lamp")] {
            let made = try await sandbox.run(
                "simulate", "create", name, "--product", product, "--version", "1.0.0", "--trust", "release.pub.pem")
            #expect(made.exit == 0, "\(made.err)")
        }
        return sandbox
    }

    private static let push = ["push", "fw.otaf", "--trust", "release.pub.pem", "--progress", "none"]
    private static let devices = [
        "--device", "sim:a?pace=virtual", "--device", "sim:lamp?pace=virtual", "--device",
        "sim:b?pace=virtual&gone-at=0.5",
    ]

    @Test("the hint of a push with a report pushes only to the devices that were not updated")
    func onlyFailed() async throws {
        let sandbox = try await Self.sandbox()
        let first = try await sandbox.run(Self.push + Self.devices + ["--report", "report.json", "--at-once", "2"])
        #expect(first.exit == 79, "\(first.err)")
        let again = "otaflash push fw.otaf --trust release.pub.pem --failed-from report.json --at-once 2"
        #expect(
            first.err.contains("hint: correct the causes, then update only these devices: \(again)\n"), "\(first.err)")

        let second = try await sandbox.run(
            Self.push + ["--failed-from", "report.json", "--report", "report.json", "--format", "json"])
        #expect(second.exit == 79, "\(second.err)")
        let given = try second.json().devices?.array?.map { $0.device?.given?.string }
        #expect(given == ["sim:lamp?pace=virtual", "sim:b?pace=virtual&gone-at=0.5"], "\(second.out)")
    }

    @Test("a report without a failed device, also of one device and on stdout, ends with 0 and a sentence")
    func noneFailed() async throws {
        let sandbox = try await Self.sandbox()
        let several = Self.push + Array(Self.devices.prefix(2))
        for words in [several, several + ["--device", "sim:b?pace=virtual"]] {
            let run = try await sandbox.shell("\"$0\" \"$@\" >report.json", arguments: words + ["--format", "json"])
            #expect(run.exit == 0, "\(run.err)")
            let text = try await sandbox.run(Self.push + ["--failed-from", "report.json"])
            #expect(text.exit == 0, "\(text.err)")
            #expect(text.out == "The report has no device that was not updated: nothing was sent.\n")
            let json = try await sandbox.run(Self.push + ["--failed-from", "report.json", "--format", "json"])
            #expect(try json.exit == 0 && json.json().devices?.array?.isEmpty == true, "\(json.out)")
            #expect(try json.json().bundle?.product?.string == "demo" && json.json().summary?.failed?.number == 0)
        }
    }

    @Test("the report of a dry run, and a report without failures about another release, are refused")
    func otherReports() async throws {
        let sandbox = try await Self.sandbox()
        let device = ["--device", "sim:a?pace=virtual", "--device", "sim:b?pace=virtual"]
        let plan = try await sandbox.run(Self.push + device + ["--dry-run", "--report", "plan.json"])
        #expect(plan.exit == 0, "\(plan.err)")
        let dry = try await sandbox.run(Self.push + ["--failed-from", "plan.json"])
        #expect(dry.exit == 65 && dry.err.contains("is the result of a dry run"), "\(dry.err)")
        #expect(try await sandbox.run(Self.push + device + ["--report", "good.json"]).exit == 0)
        try await sandbox.release(version: "1.2.0", as: "next.otaf")
        let words = ["push", "next.otaf", "--trust", "release.pub.pem", "--failed-from", "good.json"]
        let other = try await sandbox.run(words)
        #expect(other.exit == 65 && other.err.contains("to another release than this file"), "\(other.err)")
    }

    @Test("a failure before the first device keeps the list of the report")
    func keepsTheList() async throws {
        let sandbox = try await Self.sandbox()
        let first = try await sandbox.run(Self.push + Self.devices + ["--report", "r.json"])
        #expect(first.exit == 79, "\(first.err)")
        let list = try sandbox.read("r.json")
        let words = ["--trust", "release.pub.pem", "--failed-from", "r.json", "--report", "./r.json"]
        #expect(try await sandbox.run(["push", "missing.otaf"] + words).exit == 66)
        #expect(try sandbox.read("r.json") == list)
    }

    @Test("the report of a failed push to one device selects this device")
    func one() async throws {
        let sandbox = try await Self.sandbox()
        let failed = try await sandbox.run(Self.push + ["--device", "sim:lamp?pace=virtual", "--report", "one.json"])
        #expect(failed.exit == 77, "\(failed.err)")
        let run = try await sandbox.run(Self.push + ["--failed-from", "one.json", "--format", "json"])
        #expect(
            try run.json().devices?.array?.map { $0.device?.given?.string } == ["sim:lamp?pace=virtual"], "\(run.out)")
    }

    @Test(
        "a file that is not the result of a push is refused with 65",
        arguments: [
            ("[]", "is not the result of a push"), ("report", "is not the result of a push"),
            (#"{"schema":1,"command":"scan","ok":true,"exit":0,"devices":[]}"#, "is not the result of a push"),
            (#"{"schema":2,"command":"push","ok":true,"exit":0,"devices":[]}"#, "is not the result of a push"),
            (#"{"schema":1,"command":"push","ok":true,"exit":0,"devices":[{"address":"sim:a"}]}"#, "is not the result"),
            (#"{"schema":1,"command":"push","ok":false,"exit":65,"devices":[{"ok":false}]}"#, "is not the result"),
            (
                #"{"schema":1,"command":"push","ok":false,"exit":77,"error":{"code":"untrusted-key"}}"#,
                "failed before it began with a device: untrusted-key"
            ),
        ])
    func malformed(text: String, message: String) async throws {
        let sandbox = try await Self.sandbox()
        try sandbox.write("report.json", Array(text.utf8))
        let run = try await sandbox.run(Self.push + ["--failed-from", "report.json", "--format", "json"])
        let error = try run.json().error
        #expect(run.exit == 65 && error?.code?.string == "bad-report", "\(run.out)")
        #expect(error?.message?.string?.contains(message) == true, "\(run.out)")
    }

    @Test("a bad address in a report, a missing report and options that also select devices are refused")
    func refusals() async throws {
        let sandbox = try await Self.sandbox()
        let bad =
            #"{"schema":1,"command":"push","ok":false,"exit":75,"devices":[{"ok":false,"device":{"given":"lamp"}}]}"#
        try sandbox.write("bad.json", Array(bad.utf8))
        for (words, exit, text) in [
            (["bad.json"], 64, "bad.json: 'lamp' is not a device address"), (["none.json"], 66, "none.json"),
            (["-"], 64, "cannot be standard input"), (["bad.json", "--device", "sim:a"], 64, "omit --device"),
            (["bad.json", "--all"], 64, "cannot be used together"),
        ] as [([String], Int32, String)] {
            let run = try await sandbox.run(Self.push + ["--failed-from"] + words)
            #expect(run.exit == exit && run.err.contains(text), "\(words): \(run.err)")
        }
    }
}
