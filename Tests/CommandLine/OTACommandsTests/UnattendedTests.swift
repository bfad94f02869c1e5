import FoundationEssentials
import Glibc
import Testing

/// The units and the crontab of docs/unattended.md, and a push as a user without a home folder.
@Suite("A push without a person") struct UnattendedTests {
    /// The text of the fenced blocks of the page in this language.
    private static func blocks(_ language: String) throws -> [String] {
        let page = try String(contentsOfFile: Sandbox.repository("docs/unattended.md"), encoding: .utf8)
        return page.components(separatedBy: "```\(language)\n").dropFirst().map {
            String($0[..<($0.firstRange(of: "```")?.lowerBound ?? $0.endIndex)])
        }
    }

    /// A sandbox that the user `nobody` can use: the bundle, the trusted keys and the list of boards, each at a path of the page.
    private static func sandbox() async throws -> (sandbox: Sandbox, paths: [String: String]) {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let made = try await sandbox.shell(
            """
            chmod 755 . && install --mode=755 "$0" otaflash && install -d etc/trust srv var &&
            install -m 644 release.pub.pem etc/trust && printf 'downgrade = refuse\\n' >etc/trust/trust.policy &&
            install -m 644 fw.otaf srv/lamp.otaf && { [ "$(id -u)" != 0 ] || chown 65534 var; }
            export OTAFLASH_STATE_DIR=$PWD/var
            for name in hall attic; do
                ./otaflash simulate create $name --product demo --version 1.0.0 --trust release.pub.pem || exit
                echo "sim:$name?pace=virtual" >>etc/boards.txt
            done
            { [ "$(id -u)" != 0 ] || chown -R 65534 var; }
            """)
        #expect(made.exit == 0, "\(made.err)")
        let paths = [
            "/usr/bin/otaflash": "otaflash", "/srv/firmware/lamp.otaf": "srv/lamp.otaf",
            "/etc/otaflash/trust": "etc/trust",
            "/etc/otaflash/boards.txt": "etc/boards.txt", "/var/lib/otaflash": "var",
        ].mapValues { sandbox.path($0) }
        return (sandbox, paths)
    }

    /// Runs a command line as `nobody`, with only these variables and HOME=/nonexistent.
    private static func asNobody(_ line: String, _ variables: [String] = [], in sandbox: Sandbox) async throws -> Run {
        try await sandbox.shell(
            """
            [ "$(id -u)" != 0 ] || user="setpriv --reuid=65534 --clear-groups"
            exec $user env -i HOME=/nonexistent PATH=/usr/bin:/bin SWIFT_BACKTRACE=enable=no \(variables.joined(separator: " ")) sh -c '\(line)'
            """)
    }

    private static func replaced(_ text: String, _ paths: [String: String]) -> String {
        paths.reduce(text) { $0.replacing($1.key, with: $1.value) }
    }

    @Test("the service of the page updates all boards as a user without rights, and a second start sends nothing")
    func service() async throws {
        let (sandbox, paths) = try await Self.sandbox()
        let unit = Self.replaced(try #require(try Self.blocks("ini").first), paths)
        let lines = unit.split(separator: "\n").map(String.init)
        func values(_ name: String) -> [String] {
            lines.filter { $0.hasPrefix("\(name)=") }.map { String($0.dropFirst(name.count + 1)) }
        }
        let start = try #require(values("ExecStart").first)
        for outcome in ["confirmed", "already_running"] {
            let run = try await Self.asNobody(start, values("Environment"), in: sandbox)
            #expect(run.exit == 0 && run.err.isEmpty, "\(run.out)\(run.err)")
            let report = try JSONValue(parsing: String(decoding: sandbox.read("var/report.json"), as: UTF8.self))
            #expect(report.summary?[dynamicMember: outcome]?.number == 2, "\(report)")
        }
        // systemd retries only the exit codes after which the same command can succeed.
        let prevented = try #require(values("RestartPreventExitStatus").first).split(separator: " ").compactMap {
            Int($0)
        }
        #expect(prevented == (64...79).filter { [64, 65, 66, 70, 73, 74, 76, 77, 78, 79].contains($0) })
    }

    @Test(
        "systemd accepts the service and the timer of the page",
        .enabled(if: access("/usr/bin/systemd-analyze", X_OK) == 0))
    func units() async throws {
        let (sandbox, paths) = try await Self.sandbox()
        let units = try Self.blocks("ini")
        #expect(units.count == 2)
        for (unit, suffix) in zip(units, ["service", "timer"]) {
            try sandbox.write("otaflash-push.\(suffix)", Array(Self.replaced(unit, paths).utf8))
        }
        let run = try await sandbox.shell("systemd-analyze verify ./otaflash-push.service ./otaflash-push.timer 2>&1")
        let problems = run.out.split(separator: "\n").filter { $0.contains("otaflash-push") }
        #expect(run.exit == 0 && problems.isEmpty, "\(run.out)")
        // A misspelt setting is noticed.
        try sandbox.write(
            "otaflash-push.service",
            Array(Self.replaced(units[0], paths).replacing("RestartSec", with: "RestartSek").utf8))
        let misspelt = try await sandbox.shell("systemd-analyze verify ./otaflash-push.service 2>&1")
        #expect(misspelt.out.contains("RestartSek"), "\(misspelt.out)")
    }

    @Test("the line of cron updates all boards as a user without rights, and prints nothing")
    func cron() async throws {
        let (sandbox, paths) = try await Self.sandbox()
        let line = Self.replaced(try #require(try Self.blocks("crontab").first), paths)
        let command = line.split(separator: " ", maxSplits: 6)[6]
        #expect(line.split(separator: " ")[5] == "otaflash")
        let run = try await Self.asNobody(String(command.split(separator: "\n")[0]), in: sandbox)
        #expect(run.exit == 0 && run.out.isEmpty && run.err.isEmpty, "\(run.out)\(run.err)")
        let list = try await sandbox.run(
            "simulate", "list", "--format", "json", env: ["OTAFLASH_STATE_DIR": paths["/var/lib/otaflash"] ?? ""])
        #expect(try list.json().devices?.array?.map(\.version?.string) == ["1.1.0", "1.1.0"])
    }

    @Test(
        "a push without a state folder stops before it connects, and the hint names OTAFLASH_STATE_DIR",
        arguments: ["udp:127.0.0.1:9", "serial:/dev/ttyACM0", "udp:127.0.0.1:9 --device udp:127.0.0.2:9"])
    func noHome(device: String) async throws {
        let (sandbox, _) = try await Self.sandbox()
        let run = try await Self.asNobody(
            "./otaflash push fw.otaf --trust release.pub.pem --format json --device \(device)", in: sandbox)
        #expect(run.exit == 73, "\(run.out)\(run.err)")
        let error = try run.json().error
        #expect(error?.code?.string == "cannot-create")
        #expect(error?.message?.string?.contains("/nonexistent/.local/state/otaflash") == true, "\(run.out)")
        #expect(error?.hint?.string?.contains("OTAFLASH_STATE_DIR") == true)
        #expect(!run.err.contains("Connecting"), "\(run.err)")
        let untrusted = try await Self.asNobody(
            "./otaflash push fw.otaf --format json --device \(device)", ["OTAFLASH_STATE_DIR=$PWD/var"], in: sandbox)
        let hint = try untrusted.json().error?.hint?.string
        #expect(
            hint?.contains("set OTAFLASH_TRUST") == true && hint?.contains("/nonexistent") == false, "\(hint ?? "")")
    }
}
