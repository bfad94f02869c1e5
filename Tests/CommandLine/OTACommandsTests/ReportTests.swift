import FoundationEssentials
import Glibc
import OTATestSupport
import Testing

@Suite("Option --report") struct ReportTests {
    private func released() async throws -> Sandbox {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 60_000)
        try await sandbox.create()
        return sandbox
    }

    private let push = ["push", "fw.otaf", "--device", "sim:kitchen?pace=virtual", "--trust", "release.pub.pem"]
    private let verify = ["verify", "fw.otaf", "--trust", "release.pub.pem"]

    /// Reads a report with junitparser, an independent reader of JUnit XML.
    private func suite(_ sandbox: Sandbox, _ name: String) async throws -> JSONValue {
        let script = """
            import json, sys
            from junitparser import JUnitXml, Failure, Skipped
            xml = JUnitXml.fromfile(sys.argv[1])
            suites = list(xml)
            assert len(suites) == 1
            suite = suites[0]
            cases = [{"name": case.name, "class": case.classname, "time": case.time, "output": case.system_out, "warnings": case.system_err,
                      "failures": [{"type": r.type, "message": r.message, "text": r.text} for r in case.result
                                   if isinstance(r, Failure)],
                      "skipped": [r.message for r in case.result if isinstance(r, Skipped)]} for case in suite]
            assert suite.tests == xml.tests == len(cases), "the number of cases"
            assert suite.failures == xml.failures == sum(len(case["failures"]) for case in cases), "the number of failures"
            assert suite.skipped == xml.skipped == sum(len(case["skipped"]) for case in cases), "the number of skipped cases"
            assert abs(suite.time - sum(case["time"] for case in cases)) < 0.01, "the sum of the times"
            print(json.dumps({"name": suite.name, "cases": cases,
                              "properties": {p.name: p.value for p in suite.properties()}}))
            """
        let read = try await Command.run(PythonEnvironment.python, ["-c", script, sandbox.path(name)])
        let text = String(decoding: try sandbox.read(name), as: UTF8.self)
        #expect(read.succeeded, "\(read.errorText)\(text)")
        return try JSONValue(parsing: read.outputText)
    }

    private func names(_ suite: JSONValue) -> [String] { suite.cases?.array?.compactMap { $0.name?.string } ?? [] }

    @Test("the JSON report is the object of --format json, and stdout remains text")
    func json() async throws {
        let sandbox = try await released()
        for words in [verify, ["inspect", "fw.otaf"], ["simulate", "list"], ["status", "--device", "sim:absent"]] {
            let run = try await sandbox.run(words + ["--report", "r.json"])
            let object = try await sandbox.run(words + ["--format", "json"])
            #expect(run.exit == object.exit)
            #expect(String(decoding: try sandbox.read("r.json"), as: UTF8.self) == object.out)
            #expect(!run.out.hasPrefix("{") && run.out.isEmpty == (run.exit != 0))
        }
    }

    @Test("the JUnit report of a push has a case for each phase, with the times of the progress events")
    func phases() async throws {
        let sandbox = try await released()
        let run = try await sandbox.run(push + ["--report", "r.xml", "--progress", "json"])
        #expect(run.exit == 0, "\(run.err)")
        let suite = try await suite(sandbox, "r.xml")
        #expect(suite.name?.string == "otaflash push")
        let phases = ["connect", "preflight", "envelope", "transfer", "verify", "apply", "restart", "confirm"]
        #expect(names(suite) == ["prepare"] + phases)
        let begun = try run.events().filter { $0.event?.string == "phase" }
        #expect(begun.compactMap { $0.phase?.string } == phases)
        let cases = try #require(suite.cases?.array)
        // The end of each phase is the begin of the next one.
        for (index, (phase, next)) in zip(begun, begun.dropFirst()).enumerated() {
            let duration = try #require(next.seconds?.number) - #require(phase.seconds?.number)
            let time = try #require(cases[index + 1].time?.number)
            #expect(abs(time - duration) < 0.0021, "\(phase)")
        }
        #expect(cases.allSatisfy { $0.failures?.array == [] })
        #expect(suite.properties?.device?.string == "sim:kitchen?pace=virtual" && suite.properties?.exit?.string == "0")
        #expect(cases.last?.output?.string.map { $0 + "\n" } == run.out)
        let dry = try await sandbox.run(push + ["--report", "r.xml", "--dry-run"])
        #expect(dry.exit == 0)
        #expect(try await names(self.suite(sandbox, "r.xml")) == ["prepare", "connect", "preflight"])
    }

    @Test(
        "the JUnit report of a push to several devices has a case for each device, and skipped cases for those not started"
    )
    func severalDevices() async throws {
        let sandbox = try await released()
        let devices = ["sim:kitchen?pace=virtual", "sim:absent", "sim:lamp"]
        let words = ["push", "fw.otaf", "--trust", "release.pub.pem", "--report", "r.xml"]
        let run = try await sandbox.run(words + devices.prefix(2).flatMap { ["--device", $0] })
        #expect(run.exit == 79, "\(run.err)")
        var suite = try await suite(sandbox, "r.xml")
        #expect(names(suite) == Array(devices.prefix(2)) && suite.properties?.exit?.string == "79")
        #expect(suite.cases?[0]?.output?.string?.contains("1.1.0") == true && suite.cases?[0]?.failures?.array == [])
        #expect(suite.cases?[1]?.failures?[0]?.type?.string == "no-such-device")
        #expect(suite.cases?[1]?.failures?[0]?.text?.string?.hasPrefix("hint: ") == true)

        let made = try await sandbox.run(
            "simulate", "create", "lamp", "--product", "demo", "--version", "1.0.0", "--trust", "release.pub.pem",
            "--trial", "1")
        #expect(made.exit == 0, "\(made.err)")
        let slow = ["sim:lamp?pace=virtual&interval=300ms", "sim:kitchen?pace=virtual"]
        let halted = try await sandbox.run(words + slow.flatMap { ["--device", $0] } + ["--first", "1"])
        #expect(halted.exit == 78, "\(halted.err)")
        suite = try await self.suite(sandbox, "r.xml")
        #expect(suite.cases?[0]?.failures?[0]?.type?.string == "rolled-back")
        #expect(suite.cases?[1]?.skipped?.array?.map(\.string) == ["the update was not started"])

        // A failure before the first device is a failure of the preparation.
        let untrusted = try await sandbox.run(
            ["push", "fw.otaf", "--report", "r.xml", "--trust", "other.pub.pem"] + slow.flatMap { ["--device", $0] })
        #expect(untrusted.exit != 0)
        #expect(try await names(self.suite(sandbox, "r.xml")) == ["prepare"])
    }

    @Test("the JUnit report has the warnings of each device in its case, and the warnings of the command as properties")
    func warnings() async throws {
        let sandbox = try await released()
        for name in ["new", "newer"] {
            let made = try await sandbox.run(
                "simulate", "create", name, "--product", "demo", "--version", "1.3.9", "--trust", "release.pub.pem")
            #expect(made.exit == 0, "\(made.err)")
        }
        let words = ["push", "fw.otaf", "--trust", "release.pub.pem", "--report", "r.xml", "--device"]
        let warning = "warning: version 1.1.0 is lower than 1.3.9, the running version"
        let both = try await sandbox.run(words + ["sim:kitchen?pace=virtual", "--device", "sim:new?pace=virtual"])
        #expect(both.exit == 0, "\(both.err)")
        var suite = try await suite(sandbox, "r.xml")
        #expect(suite.cases?[0]?.warnings?.string == nil && suite.cases?[1]?.warnings?.string == warning)
        #expect(suite.properties?.warning == nil)
        #expect(try await sandbox.run(words + ["sim:newer?pace=virtual"]).exit == 0)
        suite = try await self.suite(sandbox, "r.xml")
        #expect("warning: \(suite.properties?.warning?.string ?? "")" == warning)
        #expect(suite.cases?.array?.last?.warnings?.string == warning && suite.cases?[1]?.warnings?.string == nil)
    }

    static let failures: [(options: [String], phase: String, exit: Int32, code: String)] = [
        (["--trust", "other.pub.pem"], "prepare", 77, "untrusted-key"),
        (["--device", "sim:absent"], "connect", 69, "no-such-device"),
        (["--device", "kitchen"], "prepare", 64, "usage"),
        (["--permanent"], "preflight", 77, "trial-available"),
        (["--device", "sim:kitchen?pace=virtual&gone-at=0.5"], "transfer", 75, "link-lost"),
    ]

    @Test(
        "the JUnit report of a failed push has the error code, the message and the hint in the failed phase",
        arguments: failures)
    func failure(failure: (options: [String], phase: String, exit: Int32, code: String)) async throws {
        let sandbox = try await released()
        try await sandbox.run("keygen", "other")
        var words = push
        for (option, value) in zip(failure.options, failure.options.dropFirst()) {
            if let index = words.firstIndex(of: option) { words[index + 1] = value }
        }
        if failure.options.count == 1 { words += failure.options }
        let run = try await sandbox.run(words + ["--report", "r.xml", "--format", "json"])
        #expect(run.exit == failure.exit, "\(run.err)")
        let suite = try await suite(sandbox, "r.xml")
        let failed = try #require(suite.cases?.array?.last)
        let result = try #require(failed.failures?[0])
        let error = try #require(try run.json().error)
        #expect(failed.name?.string == failure.phase && result.type?.string == failure.code)
        #expect(error.code?.string == failure.code && result.message == error.message)
        #expect(
            result.text?.string
                == error.hint?.string?.split(separator: "\n").map { "hint: \($0)" }.joined(separator: "\n"))
        #expect(suite.cases?.array?.dropLast().allSatisfy { $0.failures?.array == [] } == true)
        #expect(suite.properties?.exit?.string == "\(failure.exit)")
    }

    @Test("hostile names of files and devices are escaped in the JUnit report")
    func hostileText() async throws {
        let sandbox = try await released()
        let file = "a<b>&\"'\u{1B}[31m\n\u{202E}\u{FFFE}]]>é😀.otaf"
        try sandbox.write(file, try sandbox.read("fw.otaf"))
        let device = "sim:</testsuite>&\u{7}\"\u{85}"
        let run = try await sandbox.run(
            "push", file, "--device", device, "--trust", "release.pub.pem", "--report", "r.xml")
        #expect(run.exit == 64 && run.err.contains("[bad-address]"), "\(run.err)")
        let hostile = try await suite(sandbox, "r.xml")
        #expect(hostile.properties?.device?.string == "sim:</testsuite>&\\u{07}\"\\u{0085}")
        #expect(
            hostile.properties?.file?.string == "a<b>&\"'\\u{1B}[31m\\n\\u{202E}\u{FFFD}]]>é😀.otaf",
            "\(hostile)")
        #expect(hostile.cases?[0]?.failures?[0]?.message?.string?.contains("</testsuite>&") == true, "\(hostile)")
        let good = try await sandbox.run(
            "push", file, "--device", "sim:kitchen?pace=virtual", "--trust", "release.pub.pem", "--report", "r.xml")
        #expect(good.exit == 0, "\(good.err)")
        #expect(try await names(suite(sandbox, "r.xml")).count == 9)
    }

    /// Commands that prepare the file of the option, the file, and the exit status.
    static let refused: [(making: String, file: String, exit: Int32)] = [
        ("true", "/dev/full", 64), ("true", "report", 64), ("true", "-", 64), ("true", "report.html", 64),
        ("mkdir r.json", "r.json", 73), ("mkfifo r.json", "r.json", 73), ("ln -s /dev/full r.json", "r.json", 73),
        ("ln -s /dev/null r.xml", "r.xml", 73), ("cp fw.otaf r.json", "r.json", 73), ("true", "none/r.json", 73),
        (#"echo '{"name":"mine","schema":1}' >r.json"#, "r.json", 73), ("echo '<a/>' >r.xml", "r.xml", 73),
        ("ln -s fw.otaf r.json", "r.json", 73), ("head -c 20000000 /dev/zero >r.json", "r.json", 73),
        (#""$0" verify fw.otaf --trust release.pub.pem --report r.json; mv r.json r.xml"#, "r.xml", 73),
    ]

    @Test(
        "a file that cannot or must not be the report is refused before the device is reached, and not changed",
        arguments: refused)
    func isRefused(refused: (making: String, file: String, exit: Int32)) async throws {
        let sandbox = try await released()
        #expect(try await sandbox.shell(refused.making).exit == 0)
        let list =
            "ls -ln --time-style=full-iso . state/kitchen; sha256sum fw.otaf state/kitchen/*; test ! -f r.json || sha256sum r.json"
        let before = try await sandbox.shell(list).out
        let run = try await sandbox.run(push + ["--report", refused.file])
        #expect(run.exit == refused.exit && run.out.isEmpty, "\(run.err)")
        #expect(run.err.contains(refused.file) && run.err.contains("otaflash: hint: "), "\(run.err)")
        #expect(try await sandbox.shell(list).out == before)
    }

    @Test("a report is refused in a folder without write permission, and as the file of --log or of the output")
    func sharedFiles() async throws {
        let sandbox = try await released()
        try sandbox.makeFolder("closed")
        chmod(sandbox.path("closed"), 0o555)
        chmod(sandbox.path("release.pub.pem"), 0o444)
        let closed = try await sandbox.runWithoutRights(verify + ["--report", "closed/r.json"])
        #expect(closed.exit == 73 && closed.err.contains("Permission denied"), "\(closed.err)")
        let log = try await sandbox.run(verify + ["--report", "r.json", "--log", "./r.json"])
        #expect(log.exit == 64 && log.out.isEmpty && !sandbox.exists("r.json"), "\(log.err)")
        let sign = ["sign", "fw.bin", "--key", "release.pem", "--product", "demo", "--version", "1.0.0"]
        let same = try await sandbox.run(sign + ["-o", "o.json", "--report", "./o.json"])
        #expect(same.exit == 64 && !sandbox.exists("o.json"), "\(same.err)")
        // Through a link, the two names differ. The bundle that sign wrote is not replaced.
        #expect(try await sandbox.shell("ln -s . here").exit == 0)
        let linked = try await sandbox.run(sign + ["-o", "o.json", "--report", "here/o.json"])
        #expect(linked.exit == 73 && linked.out.contains("Wrote o.json"), "\(linked.err)")
        #expect(Array(try sandbox.read("o.json").prefix(4)) == Array("OTAF".utf8))
    }

    @Test(
        "a report replaces an earlier report and an empty file; a symbolic link is replaced, and its target is not changed"
    )
    func replaces() async throws {
        let sandbox = try await released()
        try sandbox.write("r.json", [])
        #expect(try await sandbox.run("status", "--device", "sim:absent", "--report", "r.json").exit == 69)
        let failed = try sandbox.read("r.json")
        #expect(try await sandbox.shell("ln -s r.json l.json && ln -s nowhere d.json").exit == 0)
        for name in ["l.json", "d.json", "r.json"] {
            #expect(try await sandbox.run(verify + ["--report", name]).exit == 0)
            #expect(try JSONValue(parsing: String(decoding: sandbox.read(name), as: UTF8.self)).ok?.bool == true)
            if name == "l.json" { #expect(try sandbox.read("r.json") == failed) }
        }
        #expect(!sandbox.exists("nowhere"))
        #expect(try await sandbox.shell("test ! -L l.json && ls -A | grep -c '^\\.otaflash'").out == "0\n")
    }

    @Test("a report that cannot be written at the end fails a command with 74 after its result")
    func noFileSize() async throws {
        let sandbox = try await released()
        let limited = try await sandbox.shell(
            "trap '' XFSZ; (ulimit -f 0; \"$0\" \"$@\" 2>&1; echo \"exit $?\") | cat",
            arguments: verify + ["--report", "r.json"])
        #expect(limited.out.contains("fw.otaf is verified") && limited.out.hasSuffix("exit 74\n"), "\(limited.out)")
        #expect(limited.out.contains("cannot write the report r.json: File too large") && !sandbox.exists("r.json"))
        let json = try await sandbox.shell(
            "trap '' XFSZ; (ulimit -f 0; \"$0\" \"$@\" 2>/dev/null) | cat",
            arguments: verify + ["--report", "r.json", "--format", "json"])
        #expect(try json.json().exit?.number == 74 && json.json().error?.code?.string == "write-failed")
        #expect(try json.json().bundle?.product?.string == "demo")
    }

    @Test("the report has the failure of a command whose stdout cannot be written")
    func closedOutput() async throws {
        let sandbox = try await released()
        let run = try await sandbox.shell("exec \"$0\" \"$@\" >/dev/full", arguments: verify + ["--report", "r.json"])
        #expect(run.exit == 74)
        let report = try JSONValue(parsing: String(decoding: sandbox.read("r.json"), as: UTF8.self))
        #expect(report.exit?.number == 74 && report.error?.code?.string == "write-failed")
    }

    @Test("the report of an interrupted push has the code interrupted in the running phase")
    func interrupted() async throws {
        let sandbox = try await released()
        let words = push.map { $0.replacing("?pace=virtual", with: "?interval=0.5s&per-event=1") }
        let script = """
            "$0" "$@" 2>progress & until grep -q 'Sending the image' progress; do sleep 0.05; done
            kill -TERM $!; wait $!; echo $?
            """
        let run = try await sandbox.shell(script, arguments: words + ["--report", "r.xml"])
        #expect(run.out.hasSuffix("143\n"), "\(run.out)\(run.err)")
        let suite = try await suite(sandbox, "r.xml")
        #expect(suite.cases?.array?.last?.failures?[0]?.type?.string == "interrupted")
        #expect(suite.properties?.exit?.string == "143")
        #expect(suite.cases?.array?.last?.name?.string == "transfer")
    }
}
