import OTACommands
import OTAFirmware
import OTAFleet
import OTAFleetCommands
import OTALocalStore
import OTASigning
import OTAStore
import OTATestSupport
import Subprocess
import SystemPackage
import Testing

/// Rollouts over the store of one machine, with virtual devices: each test runs the programs as a user does.
@Suite("Fleet: a rollout on one machine") struct FleetTests {
    @Test("a rollout updates 8 virtual devices in two stages, and --wait exits with 0")
    func complete() async throws {
        let fleet = try await Fleet(devices: 8)
        try await fleet.create("spring", "--stages", "devices=sim-d1+sim-d2,100%", "--advance", "100%,min=2")
        let waited = try await fleet.withGateway { try await fleet.status("spring", "--wait") }
        #expect(waited.exit == 0, "\(waited.err)")
        let rollout = try waited.json().rollout
        #expect(rollout?.devices?.done?.number == 8 && rollout?.stage?.number == 2 && rollout?.finished?.bool == true)
        let devices = try await fleet.json("fleet", "devices", "--state", "done")
        #expect(devices.devices?.array?.count == 8)
        #expect(devices.devices?.array?.allSatisfy { $0.version?.string == "1.1.0" } == true)
    }

    @Test("devices that roll back halt the rollout in the first stage, and --wait exits with 78")
    func halted() async throws {
        // The long connection interval ends the trial of 1 s before the confirmation arrives.
        let fleet = try await Fleet(devices: 6, parameters: "&interval=300ms", "--trial", "1")
        try await fleet.create(
            "bad", "--stages", "devices=sim-d1+sim-d2,100%", "--advance", "100%,min=2", "--halt", "5%,min=2")
        let waited = try await fleet.withGateway { try await fleet.status("bad", "--wait") }
        #expect(waited.exit == 78, "\(waited.err)")
        #expect(try waited.json().error?.code?.string == "rollout-halted")
        let message = try waited.json().error?.message?.string
        #expect(
            message?.hasSuffix(
                "halted in stage 1: 2 devices failed (given up because of: rolled-back 2); its limit is --halt 5%,min=2"
            )
                == true, "\(waited.err)")
        #expect(waited.err.contains("bad: running, stage 1 of 2: "), "the wait shows the progress: \(waited.err)")
        let rollout = try waited.json().rollout
        #expect(rollout?.failures?[0]?.reason?.string == "rolled-back" && rollout?.failures?[0]?.devices?.number == 2)
        #expect(rollout?.devices?.failed?.number == 2 && rollout?.stage?.number == 1)
        let devices = try await fleet.json("fleet", "devices")
        #expect(devices.devices?.array?.count == 2, "the devices of the second stage received nothing")
        // Without a controller, the halt stays in the progress. Only the first resume changes the rollout.
        for _ in 1...2 {
            let resumed = try await fleet.change("resume", "bad")
            #expect(try resumed.exit == 0 && resumed.json().rollout?.serial?.number == 2, "\(resumed.err)")
        }
    }

    @Test("pause, resume and abort change the state of a rollout, and an aborted rollout is final")
    func states() async throws {
        let fleet = try await Fleet(devices: 2)
        try await fleet.create("spring")
        for (command, state) in [("pause", "paused"), ("resume", "waiting"), ("abort", "aborted")] {
            let run = try await fleet.change(command, "spring")
            #expect(run.exit == 0, "\(run.err)")
            if command == "pause" {
                let early = try await fleet.status("spring", "--wait")
                #expect(try early.exit == 75 && early.json().error?.hint?.string?.contains("rollout resume") == true)
            }
            if command != "abort" {
                let again = try await fleet.change(command, "spring")
                let note = command == "pause" ? "is already paused" : "is not paused or halted"
                #expect(
                    again.exit == 0 && again.err.contains("the rollout spring \(note): nothing changes"), "\(again.err)"
                )
                #expect(try again.json().rollout?.serial?.number == run.json().rollout?.serial?.number)
            }
            #expect(try run.json().rollout?.state?.string == state)
        }
        let again = try await fleet.change("resume", "spring")
        #expect(again.exit == 77)
        #expect(try again.json().error?.code?.string == "bad-rollout-change")
        let waited = try await fleet.status("spring", "--wait")
        #expect(waited.exit == 75)
        #expect(try waited.json().error?.code?.string == "rollout-stopped")
        let list = try await fleet.json("rollout", "list", "--operators", "ops.pub.pem")
        #expect(list.rollouts?.array?.map { $0.state?.string } == ["aborted"])
    }

    @Test("resume refuses a complete rollout, names the next command, and changes nothing; a pause is possible")
    func changeOfCompleteRollout() async throws {
        let fleet = try await Fleet(devices: 1)
        try await fleet.create("spring", "--controller", "controller.pub.pem")
        let store = try await LocalStore(FilePath(fleet.sandbox.path("state/fleet/fleet.db")))
        let name = try #require(RecordName("spring"))
        try await writeProgress("complete", ofSerial: 1, of: fleet, to: store)
        #expect(try await fleet.status("spring").json().rollout?.state?.string == "complete")
        let before = try await store.read(RecordKey(.rollouts, name))
        let run = try await fleet.change("resume", "spring")
        let error = try run.json().error
        #expect(run.exit == 77 && error?.code?.string == "bad-rollout-change")
        #expect(error?.message?.string?.contains("the rollout spring is complete") == true, "\(run.out)")
        #expect(error?.hint?.string?.contains("otaflash rollout create NAME --release \(fleet.release)") == true)
        #expect(try await store.read(RecordKey(.rollouts, name)) == before)
        for command in ["pause", "resume", "abort"] { #expect(try await fleet.change(command, "spring").exit == 0) }
    }

    @Test(
        "resume writes a new version of a running rollout if the store has lost a version that its controller has read")
    func changeOfRestoredRollout() async throws {
        let fleet = try await Fleet(devices: 1)
        try await fleet.create("spring", "--controller", "controller.pub.pem")
        let store = try await LocalStore(FilePath(fleet.sandbox.path("state/fleet/fleet.db")))
        try await writeProgress("running", ofSerial: 2, of: fleet, to: store)
        for note in [false, true] {
            let run = try await fleet.change("resume", "spring")
            #expect(try run.exit == 0 && run.json().rollout?.serial?.number == 2, "\(run.out)")
            #expect(run.err.contains("nothing changes") == note, "\(run.err)")
        }
    }

    /// Writes the progress that the controller signed for a version of the rollout `spring`.
    private func writeProgress(
        _ state: String, ofSerial serial: Int, of fleet: Fleet, to store: LocalStore
    ) async throws {
        let text =
            #"{"schema":1,"rollout":"spring","serial":1,"rollout_serial":\#(serial),"state":"\#(state)","stage":0,"#
            + #""counts":{"done":1,"running":0,"failed":0,"refused":0,"waiting":0}}"#
        let key = try PrivateKey(pem: SecretBytes(copying: fleet.sandbox.read("controller.pem")))
        let progress = try SignedRecord(signing: RolloutProgress(payload: Array(text.utf8)), with: key).encoded()
        let name = try #require(RecordName("spring"))
        #expect(try await store.write(progress, at: RecordKey(.progress, name), expecting: .absent) != .conflict)
    }

    @Test("a paused rollout updates no device until it is resumed")
    func paused() async throws {
        let fleet = try await Fleet(devices: 2)
        try await fleet.create("spring")
        #expect(try await fleet.change("pause", "spring").exit == 0)
        let waited = try await fleet.withGateway {
            let early = try await fleet.status("spring", "--wait", "--timeout", "3s")
            #expect(early.exit == 75)
            #expect(try await fleet.json("fleet", "devices").devices?.array?.isEmpty == true)
            #expect(try await fleet.change("resume", "spring").exit == 0)
            return try await fleet.status("spring", "--wait")
        }
        #expect(waited.exit == 0, "\(waited.err)")
    }

    @Test("a running rollout whose devices are all in a newer rollout shows this, and their number")
    func moved() async throws {
        let fleet = try await Fleet(devices: 2)
        try await fleet.create("old")
        try await fleet.withGateway {
            #expect(try await fleet.status("old", "--wait").exit == 0)
            let created = try await fleet.run(
                [
                    "rollout", "create", "new", "--release", fleet.release, "--select", "product=demo", "--key",
                    "ops.pem",
                ])
            #expect(created.exit == 0, "\(created.err)")
            #expect(try await fleet.status("new", "--wait").exit == 0)
        }
        let words = ["--operators", "ops.pub.pem"]
        let status = try await fleet.run(["rollout", "status", "old"] + words)
        #expect(status.out.contains("all known devices are in newer rollouts\n"), "\(status.out)")
        #expect(status.out.contains("in newer rollouts  2\n"), "\(status.out)")
        let list = try await fleet.run(["rollout", "list"] + words)
        #expect(list.out.contains("old      all known devices are in newer rollouts"), "\(list.out)")
        #expect(try await fleet.status("old").json().rollout?.moved?.number == 2)
        #expect(try await fleet.status("new").json().rollout?.moved == nil)
    }

    @Test("a gateway warns of a virtual device that does not exist, and names it")
    func missingDevice() async throws {
        let fleet = try await Fleet(devices: 1)
        let list = String(decoding: try fleet.sandbox.read("list"), as: UTF8.self)
        try fleet.sandbox.write("list", Array("\(list)sim:d2?pace=virtual\nsim:dx\n".utf8))
        let gateway = try await fleet.withGatewayAlone {
            while try await fleet.json("fleet", "gateways").gateways?.array?.isEmpty != false {
                try await Task.sleep(for: .milliseconds(50))
            }
        }.gateway
        #expect(gateway.err.contains("warning: these virtual devices do not exist: d2, dx; "), "\(gateway.err)")
        #expect(gateway.err.contains("the gateway desk runs with 3 devices; "), "\(gateway.err)")
        #expect(gateway.err.contains("otaflash simulate create d2 --product NAME"), "\(gateway.err)")
    }

    @Test("a second gateway with the same name is refused")
    func twoGateways() async throws {
        let fleet = try await Fleet(devices: 1)
        let second = try await fleet.withGateway { try await fleet.gateway() }
        #expect(second.exit == 75 && second.err.contains("another otaflash uses the name of the gateway desk"))
    }

    @Test("the commands refuse a rollout that another operator signed")
    func otherOperator() async throws {
        let fleet = try await Fleet(devices: 1)
        #expect(try await fleet.sandbox.run("keygen", "other").exit == 0)
        let refused = try await fleet.sandbox.run(
            "rollout", "create", "spring", "--release", fleet.release, "--select", "product=demo", "--key", "other.pem",
            "--operators", "ops.pub.pem", "--format", "json")
        #expect(refused.exit == 77)
        #expect(try refused.json().error?.code?.string == "record-untrusted")
        // With only its own key as an operator, the other operator can write records to the store.
        let published = try await fleet.sandbox.run(
            "release", "publish", "fw.otaf", "--key", "other.pem", "--trust", "release.pub.pem", "--format", "json",
            "--store", "other.db")
        #expect(published.exit == 0, "\(published.err)")
        let created = try await fleet.sandbox.run(
            "rollout", "create", "theirs", "--release", fleet.release, "--select", "product=demo", "--key", "other.pem",
            "--store", "other.db")
        #expect(created.exit == 0, "\(created.err)")
        let status = try await fleet.sandbox.run(
            "rollout", "status", "theirs", "--operators", "ops.pub.pem", "--store", "other.db", "--format", "json")
        #expect(status.exit == 77)
        let list = try await fleet.sandbox.run(
            "rollout", "list", "--operators", "ops.pub.pem", "--store", "other.db", "--format", "json")
        #expect(list.exit == 0 && list.err.contains("is not signed by an operator's key"))
        #expect(try list.json().rollouts?.array?.isEmpty == true)
    }

    @Test("a file that is not a store is refused, and is not changed")
    func damagedStore() async throws {
        let sandbox = try Sandbox()
        let bytes = Array(repeating: UInt8(ascii: "x"), count: 5000)
        try sandbox.write("fleet.db", bytes)
        let run = try await sandbox.run("fleet", "devices", "--store", "fleet.db", "--format", "json")
        #expect(run.exit == 65)
        #expect(try run.json().error?.code?.string == "store-corrupt")
        #expect(try sandbox.read("fleet.db") == bytes)
    }

    @Test("a damaged memory of serials stops the gateway before its first update")
    func damagedMemory() async throws {
        let fleet = try await Fleet(devices: 1)
        try fleet.sandbox.makeFolder("state/fleet/gateway-desk")
        try fleet.sandbox.write("state/fleet/gateway-desk/serials", Array("nonsense\n".utf8))
        let run = try await fleet.gateway()
        #expect(run.exit == 65 && run.err.contains("line 1 of the memory of serials"), "\(run.err)")
    }

    @Test("a device that is held has the state held, and is released to its state before")
    func held() async throws {
        let sandbox = try Sandbox()
        let held = try await sandbox.run("device", "hold", "sim-d1", "--format", "json")
        #expect(try held.json().device?.state?.string == "held")
        #expect(try await sandbox.run("device", "hold", "sim-d1").exit == 75)
        let released = try await sandbox.run("device", "release", "sim-d1", "--format", "json")
        #expect(try released.json().device?.state?.string == "idle")
    }

    @Test("a change of a device without a record creates the record with a warning, and names the nearest known device")
    func unknownDevice() async throws {
        let sandbox = try Sandbox()
        let first = try await sandbox.run("device", "hold", "sim-hall")
        #expect(first.exit == 0 && first.err.contains("no record of the device sim-hall"), "\(first.err)")
        #expect(first.err.contains("list the known devices: otaflash fleet devices"), "\(first.err)")
        for (words, undo) in [
            (["hold", "hall"], "device release hall"), (["group", "sim-hal", "lab"], "device group sim-hal --none"),
        ] {
            let run = try await sandbox.run(["device"] + words)
            #expect(run.exit == 0 && run.err.contains("no record of the device \(words[1])"), "\(run.err)")
            #expect(run.err.contains("did you mean sim-hall?") && run.err.contains("otaflash \(undo)"), "\(run.err)")
            #expect(try await sandbox.run(["device"] + words).err.contains("no record") == false)
        }
        let released = try await sandbox.run("device", "release", "simhall")
        #expect(released.exit == 75 && released.err.contains("so the device is not held"), "\(released.err)")
        #expect(released.err.contains("did you mean: otaflash device release sim-hall"), "\(released.err)")
        let json = try await sandbox.run("fleet", "devices", "--format", "json").json()
        #expect(json.devices?.array?.map { $0.id?.string } == ["hall", "sim-hal", "sim-hall"])
    }

    @Test(
        "values that are not a plan are refused with the expected format",
        arguments: [
            ["--stages", "10%,5%"], ["--stages", "0%"], ["--select", "running=<1.4.0"], ["--advance", "95%,soak=1y"],
            ["--halt", "5%,soak=1h"], ["--select", "product=demo,running=1.4.0"], ["--expires", "30"],
        ])
    func plans(option: [String]) async throws {
        let sandbox = try Sandbox()
        var words = ["rollout", "create", "spring", "--release", "0011223344556677", "--key", "ops.pem"] + option
        if option[0] != "--select" { words += ["--select", "product=demo"] }
        let run = try await sandbox.run(words)
        #expect(run.exit == 64 && run.err.contains("hint: give "), "\(run.err)")
    }

    @Test(
        "a mistyped word in --select gets a suggestion, and a value of --state that does not exist is an error in one line"
    )
    func mistyped() async throws {
        let sandbox = try Sandbox()
        let select = try await sandbox.run(
            "rollout", "create", "spring", "--release", "0011223344556677", "--key", "ops.pem", "--select",
            "prodct=demo")
        #expect(select.err.contains("hint: did you mean product=demo? give product=NAME,"), "\(select.err)")
        let repeated = try await sandbox.run(
            "rollout", "create", "spring", "--release", "0011223344556677", "--key", "ops.pem", "--select",
            "product=demo,product=lamp")
        #expect(repeated.exit == 64 && repeated.err.contains("hint: give product=NAME,"), "\(repeated.err)")
        let state = try await sandbox.run("fleet", "devices", "--state", "up")
        #expect(
            state.exit == 64 && state.err.contains(": idle, running, waiting, done, given-up, held\n"), "\(state.err)")
    }

    @Test("a command for a name that is not in the store names the next command", arguments: ["status", "create"])
    func absent(command: String) async throws {
        let sandbox = try Sandbox()
        #expect(try await sandbox.run("keygen", "ops").exit == 0)
        let words =
            command == "status"
            ? ["status", "spring", "--operators", "ops.pub.pem"]
            : ["create", "spring", "--release", "0011223344556677", "--select", "product=demo", "--key", "ops.pem"]
        let run = try await sandbox.run(["rollout"] + words + ["--format", "json"])
        #expect(run.exit == 66)
        #expect(try run.json().error?.code?.string == (command == "status" ? "no-such-rollout" : "no-such-release"))
    }

    @Test("a change of a rollout with another key names this key, and how to give the operators' keys")
    func wrongKey() async throws {
        let fleet = try await Fleet(devices: 1)
        try await fleet.create("spring")
        #expect(try await fleet.sandbox.run("keygen", "other").exit == 0)
        for command in ["pause", "resume", "abort"] {
            let words = ["rollout", command, "spring", "--key", "other.pem", "--format", "json"]
            let error = try await fleet.sandbox.run(words).json().error
            #expect(error?.code?.string == "record-untrusted")
            let text = error?.message?.string
            #expect(text?.contains("of --key has not signed the rollout spring") == true, "\(text ?? "")")
            #expect(error?.hint?.string?.contains("give the key of the operator who created the rollout") == true)
            #expect(error?.hint?.string?.contains("--operators KEY.pub.pem") == true)
        }
        #expect(try await fleet.status("spring").json().rollout?.serial?.number == 1)
    }

    @Test("a rollout installs no older version than the running one, except with --allow-downgrade")
    func downgrade() async throws {
        let fleet = try await Fleet(devices: 1)
        try await fleet.create("spring")
        #expect(try await fleet.withGateway { try await fleet.status("spring", "--wait") }.exit == 0)
        try await fleet.sandbox.release(version: "1.1.0-rc.1", as: "old.otaf")
        let published = try await fleet.json(
            "release", "publish", "old.otaf", "--key", "ops.pem", "--trust", "release.pub.pem")
        let old = try #require(published.release?.id?.string)
        func create(_ name: String, _ options: String...) async throws -> Run {
            try await fleet.run(
                ["rollout", "create", name, "--release", old, "--select", "product=demo", "--key", "ops.pem"] + options)
        }
        let back = try await create("back")
        #expect(back.exit == 0, "\(back.err)")
        #expect(back.err.contains("does not select 1 device with a newer version than 1.1.0-rc.1"), "\(back.err)")
        #expect(back.err.contains("create another rollout with --allow-downgrade"), "\(back.err)")
        _ = try await fleet.withGateway { try await fleet.status("back", "--wait", "--timeout", "3s") }
        func version() async throws -> String? {
            try await fleet.json("status", "--device", "sim:d1?pace=virtual").device?.running_version?.string
        }
        #expect(try await version() == "1.1.0")
        let down = try await create("down", "--allow-downgrade")
        #expect(down.exit == 0 && !down.err.contains("newer version"), "\(down.err)")
        #expect(try await fleet.withGateway { try await fleet.status("down", "--wait") }.exit == 0)
        #expect(try await version() == "1.1.0-rc.1")
        let words = ["rollout", "create", "no", "--release", old, "--select", "product=demo,running=>1.1.0-rc.1"]
        let empty = try await fleet.run(words + ["--key", "ops.pem"])
        #expect(empty.exit == 64 && empty.err.contains("add --allow-downgrade"), "\(empty.err)")
    }

    @Test(
        "a device that was updated by hand is not downgraded, although its record has the version of its last rollout")
    func updatedByHand() async throws {
        let fleet = try await Fleet(devices: 1)
        try await fleet.create("spring")
        #expect(try await fleet.withGateway { try await fleet.status("spring", "--wait") }.exit == 0)
        try await fleet.sandbox.release(version: "3.0.0", as: "new.otaf")
        let push = ["push", "new.otaf", "--device", "sim:d1?pace=virtual", "--trust", "release.pub.pem"]
        #expect(try await fleet.sandbox.run(push).exit == 0)
        try await fleet.sandbox.release(version: "1.2.0", as: "later.otaf")
        let published = try await fleet.json(
            "release", "publish", "later.otaf", "--key", "ops.pem", "--trust", "release.pub.pem")
        let later = try #require(published.release?.id?.string)
        let created = try await fleet.run(
            ["rollout", "create", "later", "--release", later, "--select", "product=demo", "--key", "ops.pem"])
        #expect(created.exit == 0, "\(created.err)")
        let ended = try await fleet.withGateway { try await fleet.status("later", "--wait", "--timeout", "20s") }
        #expect(try ended.json().rollout?.devices?.refused?.number == 1, "\(ended.out)")
        let device = try await fleet.json("status", "--device", "sim:d1?pace=virtual").device
        #expect(device?.running_version?.string == "3.0.0")
    }

    @Test("a stage that can never reach its minimum causes a warning")
    func minimum() async throws {
        let fleet = try await Fleet(devices: 1)
        let run = try await fleet.create("spring", "--stages", "devices=sim-d1,100%", "--advance", "95%,min=20")
        #expect(run.err.contains("stage 1 needs 20 finished devices for the next stage, but it admits only 1"))
    }

    @Test("a rollout for a controller that is not this machine's controller causes a warning")
    func otherController() async throws {
        let fleet = try await Fleet(devices: 1)
        let other = try await fleet.create("other", "--controller", "controller.pub.pem")
        #expect(other.err.contains(" of --controller leads: no controller has run; "), "\(other.err)")
        let own = try await fleet.create("own")
        #expect(!own.err.contains("of --controller"), "\(own.err)")
        #expect(try await fleet.sandbox.run("keygen", "own", "--from", "state/fleet/controller.pem").exit == 0)
        let named = try await fleet.create("named", "--controller", "own.pub.pem")
        #expect(!named.err.contains("of --controller"), "\(named.err)")
    }

    @Test("a warning about a stage names its devices without a record, or without a known product")
    func reasons() async throws {
        let fleet = try await Fleet(devices: 1)
        let first = try await fleet.create("first", "--stages", "devices=sim-d1,100%")
        #expect(!first.err.contains("stage 1"), "nothing is known about the devices: \(first.err)")
        #expect(try await fleet.run(["device", "group", "sim-d1", "lab"]).exit == 0)
        for stages in ["devices=sim-d,100%", "devices=sim-d"] {
            let run = try await fleet.create("name-\(stages.count)", "--stages", stages)
            #expect(run.err.contains("the store has no record of sim-d, "), "\(run.err)")
            #expect(run.err.contains("did you mean sim-d1? then end this rollout"), "\(run.err)")
        }
        let known = try await fleet.create("known", "--stages", "devices=sim-d1,100%")
        #expect(!known.err.contains("stage 1"), "\(known.err)")
        let group = try await fleet.create("group", "--stages", "group=lab,100%")
        #expect(group.err.contains("stage 1 needs 1 finished device for"), "\(group.err)")
        #expect(group.err.contains("the product of sim-d1 is not known yet"), "\(group.err)")
        #expect(group.err.contains("if the product is demo, do nothing") && !group.err.contains("lower min"))
        let typing = ["rollout", "create", "typing", "--release", fleet.release, "--select", "product=demo,group=lav"]
        let refused = try await fleet.run(typing + ["--key", "ops.pem"])
        #expect(refused.err.contains("the rollout admits none of the known devices"), "\(refused.err)")
    }
}
