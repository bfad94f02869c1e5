import OTALocalStore
import OTAStore
import OTATestSupport
import SystemPackage
import Testing

/// The commands that show and change the records of a fleet: gateways, events, releases, and the groups of devices.
@Suite("Fleet: gateways, events, releases and groups") struct FleetRecordsTests {
    @Test("fleet gateways shows the load of a gateway, and fleet events shows the end of each update")
    func reports() async throws {
        let fleet = try await Fleet(devices: 2)
        try await fleet.create("spring")
        try await fleet.withGateway {
            let waited = try await fleet.status("spring", "--wait")
            #expect(waited.exit == 0, "\(waited.err)")
            let gateway = try #require(try await fleet.json("fleet", "gateways").gateways?[0])
            #expect(gateway.name?.string == "desk" && gateway.slots?.number == 4)
            #expect(gateway.instance?.string?.count == 8 && gateway.at?.string?.hasSuffix("Z") == true)
            let table = try await fleet.sandbox.run("fleet", "gateways")
            #expect(table.out.contains("desk") && table.out.contains(" of 4"), "\(table.out)")
            #expect(table.out.contains(" s ago") && !table.out.contains("Z "), "\(table.out)")
            #expect(gateway.heard?.number == 2, "the devices are shown before the second regular record")
            let lines = try await fleet.sandbox.run("fleet", "events", "--follow", "--timeout", "3s")
            #expect(lines.exit == 0 && lines.out.split(separator: "\n").count == 3, "\(lines.out)")
            #expect(lines.out.hasPrefix("time  rollout  device  gateway  attempt  kind  text\n"), "\(lines.out)")
            #expect(lines.out.contains("  spring  sim-d1  desk  attempt 1  updated\n"), "\(lines.out)")
        }
        let events = try await fleet.json("fleet", "events").events?.array
        #expect(events?.map { $0.kind?.string } == ["updated", "updated"])
        #expect(events?.allSatisfy { $0.rollout?.string == "spring" && $0.attempt?.number == 1 } == true)
        #expect(Set((events ?? []).compactMap { $0.device?.string }) == ["sim-d1", "sim-d2"])
        let one = try await fleet.json("fleet", "events", "--device", "sim-d2", "--rollout", "spring").events?.array
        #expect(one?.map { $0.device?.string } == ["sim-d2"])
        let none = try await fleet.sandbox.run("fleet", "events", "--rollout", "autumn")
        #expect(none.out == "no events\n")
    }

    @Test("fleet events --follow prints an event that is added later, and SIGTERM ends it with 0")
    func follow() async throws {
        let sandbox = try Sandbox()
        let store = try await LocalStore(FilePath(sandbox.path("fleet.db")))
        async let following = sandbox.shell(
            #"echo $$ >pid; exec "$0" fleet events --follow --store fleet.db >events"#)
        while !sandbox.exists("pid") { try await Task.sleep(for: .milliseconds(20)) }
        try await store.append(event("went", #"{"schema":1}"#))
        while try !sandbox.exists("events") || sandbox.read("events").isEmpty {
            try await Task.sleep(for: .milliseconds(20))
        }
        _ = try await sandbox.shell("kill $(cat pid)")
        let run = try await following
        #expect(run.exit == 0, "\(run.err)")
        #expect(
            try String(decoding: sandbox.read("events"), as: UTF8.self)
                == "time  rollout  device  gateway  attempt  kind  text\n-  spring  -  berlin-7  -  went\n")
    }

    @Test(
        "fleet events --follow warns after an older copy of the store was restored, and prints the next events",
        arguments: ["lost", "used again"])
    func restored(_ number: String) async throws {
        let sandbox = try Sandbox()
        try await LocalStore(FilePath(sandbox.path("fleet.db"))).append(event("first", "{}"))
        let copy = try sandbox.read("fleet.db")
        try await LocalStore(FilePath(sandbox.path("fleet.db"))).append(event("second", "{}"))
        async let following = sandbox.shell(
            #"echo $$ >pid; exec "$0" fleet events --follow --store fleet.db >events 2>warnings"#)
        func text(_ name: String) throws -> String {
            sandbox.exists(name) ? String(decoding: try sandbox.read(name), as: UTF8.self) : ""
        }
        func wait(for word: String, in name: String) async throws {
            while try !text(name).contains(word) { try await Task.sleep(for: .milliseconds(20)) }
        }
        try await wait(for: "second", in: "events")
        try sandbox.write("copy.db", copy)
        let store = try await LocalStore(FilePath(sandbox.path("copy.db")))
        // The number of the lost event then belongs to another event.
        if number == "used again" { try await store.append(event("other", "{}")) }
        _ = try await sandbox.shell("mv copy.db fleet.db")
        try await wait(for: "the store does not contain the event 2 any more", in: "warnings")
        try await wait(for: "hint: show the events that are left: otaflash fleet events", in: "warnings")
        // The command reads to the end of the store between its warning and its next read.
        try await Task.sleep(for: .milliseconds(500))
        let restored = try await LocalStore(FilePath(sandbox.path("fleet.db")))
        for kind in ["third", "fourth"] { try await restored.append(event(kind, "{}")) }
        try await wait(for: "fourth", in: "events")
        _ = try await sandbox.shell("kill $(cat pid)")
        #expect(try await following.exit == 0)
        let kinds = try text("events").split(separator: "\n").dropFirst().map {
            $0.split(separator: " ").last.map(String.init)
        }
        #expect(kinds == ["first", "second", "third", "fourth"])
        #expect(try text("warnings").split(separator: "warning:").count == 2, "one warning")
    }

    @Test("texts of a gateway cannot control the terminal, and malformed records are ignored with a warning")
    func hostileRecords() async throws {
        let sandbox = try Sandbox()
        let store = try await LocalStore(FilePath(sandbox.path("fleet.db")))
        let record =
            #"{"schema":1,"gateway":"NAME","instance":"4f1c09ab","software":"9\u001b[2J","slots":4,"pushing":1,"#
            + #""heard":17,"last_error":"a\nb"}"#
        for (name, text) in [
            ("berlin-7", record.replacing("NAME", with: "berlin-7")), ("berlin-8", record), ("berlin-9", "{}"),
            ("berlin-5", record.replacing("NAME", with: "berlin-5").replacing(#""schema":1"#, with: #""schema":2"#)),
            ("berlin-4", record.replacing("NAME", with: "berlin-4").replacing("17", with: "-1")),
            ("berlin-6", "\u{1}"),
        ] {
            let key = RecordKey(.gateways, try #require(RecordName(name)))
            _ = try await store.write(Array(text.utf8), at: key, expecting: .absent)
        }
        try await store.append(
            event("record-untrusted", #"{"schema":1,"text":"x\u001b[2J","at":"2026-11-22T18:00:00Z"}"#))
        try await store.append(event("rolled-back", "\u{1}"))
        let gateways = try await sandbox.run("fleet", "gateways", "--store", "fleet.db")
        #expect(gateways.out.contains("berlin-7") && gateways.out.contains("1 of 4") && gateways.out.contains("17"))
        #expect(!gateways.out.contains("\u{1B}") && gateways.out.split(separator: "\n").count == 2, "\(gateways.out)")
        for name in ["berlin-8", "berlin-9", "berlin-6", "berlin-5", "berlin-4"] {
            #expect(gateways.err.contains("the record of the gateway \(name) is ignored"), "\(gateways.err)")
        }
        let json = try await sandbox.run("fleet", "gateways", "--store", "fleet.db", "--format", "json").json()
        #expect(json.gateways?.array?.count == 1 && json.gateways?[0]?.last_error?.string == "a\nb")
        let events = try await sandbox.run("fleet", "events", "--store", "fleet.db")
        #expect(!events.out.contains("\u{1B}") && events.out.contains("record-untrusted  x"), "\(events.out)")
        let values = try await sandbox.run("fleet", "events", "--store", "fleet.db", "--format", "json").json().events
        #expect(values?[0]?.device == nil && values?[0]?.text?.string == "x\u{1B}[2J" && values?[1]?.text == nil)
    }

    private func event(_ kind: String, _ text: String) throws -> FleetEvent {
        func name(_ text: String) throws -> RecordName { try #require(RecordName(text)) }
        return FleetEvent(
            rollout: try name("spring"), device: try name("_"), gateway: try name("berlin-7"), attempt: 0,
            kind: try name(kind), bytes: Array(text.utf8))
    }

    @Test("release list and release view show the published releases with their rollouts")
    func releases() async throws {
        let fleet = try await Fleet(devices: 1)
        let trust = ["--operators", "ops.pub.pem"]
        let before = try await fleet.sandbox.run(["release", "list", "--format", "json"] + trust).json().releases
        #expect(before?[0]?.id?.string == fleet.release && before?[0]?.rollouts?.array?.isEmpty == true)
        try await fleet.create("spring")
        let view = try await fleet.sandbox.run(["release", "view", fleet.release, "--format", "json"] + trust).json()
        let release = try #require(view.release)
        #expect(release.state?.string == "published" && release.version?.string == "1.1.0")
        #expect(release.rollouts?.array?.map { $0.string } == ["spring"])
        #expect(release.manifest_sha256?.string?.hasPrefix(fleet.release) == true)
        let digest = try await fleet.sandbox.shell("sha256sum fw.otaf | cut -c 1-64")
        #expect(release.bundle_sha256?.string == digest.out.split(separator: "\n").first.map(String.init))
        let table = try await fleet.sandbox.run(["release", "list"] + trust)
        #expect(table.out.contains("\(fleet.release)  demo") && table.out.contains("published  spring"), "\(table.out)")

        #expect(try await fleet.sandbox.run("keygen", "other").exit == 0)
        let theirs = try await fleet.sandbox.run("release", "list", "--operators", "other.pub.pem")
        #expect(theirs.out == "no releases\n" && theirs.err.contains("is not signed by an operator's key"))
        for (id, exit) in [("0011223344556677", 66), ("1.1.0", 64)] as [(String, Int32)] {
            #expect(try await fleet.sandbox.run(["release", "view", id] + trust).exit == exit)
        }
        for (product, key, text) in [
            ("lamp", "ops.pem", "--select product=demo"), ("demo", "other.pem", "has not signed the release"),
        ] {
            let create = ["rollout", "create", "autumn", "--release", fleet.release, "--select", "product=\(product)"]
            let refused = try await fleet.sandbox.run(create + ["--key", key])
            #expect(refused.exit == 77 && refused.err.contains(text), "\(refused.err)")
        }
    }

    @Test("no gateway starts an update with a withdrawn release, and the release cannot be published again")
    func withdrawn() async throws {
        let fleet = try await Fleet(devices: 2)
        try await fleet.create("spring")
        let words = ["release", "withdraw", fleet.release, "--key", "ops.pem", "--format", "json"]
        for _ in 1...2 {
            let run = try await fleet.sandbox.run(words)
            #expect(try run.exit == 0 && run.json().release?.state?.string == "withdrawn", "\(run.err)")
            #expect(run.err.contains("rollout spring updates no more devices"), "\(run.err)")
        }
        try await fleet.withGateway {
            let waited = try await fleet.status("spring", "--wait", "--timeout", "4s")
            #expect(waited.exit == 75)
            #expect(try await fleet.json("fleet", "devices").devices?.array?.isEmpty == true)
        }
        let again = try await fleet.sandbox.run(
            "release", "publish", "fw.otaf", "--key", "ops.pem", "--trust", "release.pub.pem", "--format", "json")
        #expect(try again.exit == 77 && again.json().error?.code?.string == "bad-rollout-change")
        let created = try await fleet.sandbox.run(
            "rollout", "create", "autumn", "--release", fleet.release, "--select", "product=demo", "--key", "ops.pem")
        #expect(created.exit == 77 && created.err.contains("is withdrawn"), "\(created.err)")
        #expect(created.err.contains("publish it: otaflash release publish FILE.otaf"), "\(created.err)")
        #expect(try await fleet.sandbox.run("keygen", "other").exit == 0)
        let other = try await fleet.sandbox.run(
            "release", "withdraw", fleet.release, "--key", "other.pem", "--operators", "ops.pub.pem")
        #expect(other.exit == 0, "a withdrawn release needs no new signature: \(other.err)")
    }

    @Test("another operator's key cannot withdraw a release")
    func withdrawnByAnother() async throws {
        let fleet = try await Fleet(devices: 1)
        #expect(try await fleet.sandbox.run("keygen", "other").exit == 0)
        let run = try await fleet.sandbox.run(
            "release", "withdraw", fleet.release, "--key", "other.pem", "--operators", "ops.pub.pem", "--format", "json"
        )
        #expect(try run.exit == 77 && run.json().error?.code?.string == "record-untrusted")
    }

    @Test("device group sets the groups of a device, and a rollout for a group updates only its devices")
    func groups() async throws {
        let fleet = try await Fleet(devices: 2)
        let set = try await fleet.json("device", "group", "sim-d2", "beta", "berlin", "beta")
        #expect(set.device?.groups?.array?.map { $0.string } == ["berlin", "beta"].sorted())
        let shown = try await fleet.sandbox.run("device", "group", "sim-d2", "beta")
        #expect(shown.out.contains("groups  beta\n"), "\(shown.out)")
        let created = try await fleet.sandbox.run(
            "rollout", "create", "spring", "--release", fleet.release, "--select", "product=demo,group=beta", "--key",
            "ops.pem")
        #expect(created.exit == 0, "\(created.err)")
        let waited = try await fleet.withGateway { try await fleet.status("spring", "--wait") }
        #expect(waited.exit == 0, "\(waited.err)")
        let done = try await fleet.json("fleet", "devices", "--state", "done").devices?.array
        #expect(done?.map { $0.id?.string } == ["sim-d2"])
        #expect(done?[0].groups?.array?.map { $0.string } == ["beta"])
        let none = try await fleet.json("device", "group", "sim-d2", "--none")
        #expect(none.device?.groups?.array?.isEmpty == true)
        for words in [["sim-d2"], ["sim-d2", "a b"], ["sim-d2", "beta", "--none"], ["sim d2", "beta"]] {
            #expect(try await fleet.sandbox.run(["device", "group"] + words).exit == 64, "\(words)")
        }
    }
}
