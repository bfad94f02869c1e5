import Glibc
import OTAFleet
import OTALocalStore
import OTAStore
import OTATestSupport
import SystemPackage
import Testing

/// Devices that count for the stages of a rollout, and devices of strangers.
@Suite("Fleet: enrolled devices") struct FleetEnrolmentTests {
    private func store(_ fleet: Fleet) async throws -> LocalStore {
        try await LocalStore(FilePath(fleet.sandbox.path("state/fleet/fleet.db")))
    }

    /// Writes the record of a device that an earlier rollout has updated.
    private func write(
        _ id: String, since: Timestamp?, product: String = "demo", groups: String = "", to store: LocalStore
    ) async throws {
        let time = since.map { #""since":"\#($0)","# } ?? ""
        let record =
            #"{"schema":1,"device":"\#(id)","product":"\#(product)","version":"1.0.0","state":"done",\#(time)"#
            + #""rollout":"winter","rollout_created":"2026-01-02T03:04:05Z","attempt":1,"gateway":"desk","#
            + #""instance":"4f1c09ab","beat":4,"groups":[\#(groups)]}"#
        let key = RecordKey(.devices, try #require(RecordName(id)))
        _ = try await store.write(Array(record.utf8), at: key, expecting: .absent)
    }

    @Test("with --enrolled, only the devices of the file and of the stages count; others are updated last and reported")
    func file() async throws {
        let fleet = try await Fleet(devices: 3)
        try fleet.sandbox.write("enrolled", Array("# mine\nsim:d2  the lamp in the hall\nsim:d9\n".utf8))
        let created = try await fleet.create(
            "summer", "--stages", "devices=sim-d1,100%", "--enrolled", "enrolled", "--advance", "100%,min=1")
        let enrolled = try created.json().rollout?.enrolled
        #expect(enrolled?.links?.string == "all" && enrolled?.listed?.number == 3)
        let waited = try await fleet.withGateway { try await fleet.status("summer", "--wait") }
        #expect(waited.exit == 0, "\(waited.err)")
        let rollout = try waited.json().rollout
        #expect(rollout?.enrolled?.uncounted?.number == 1, "no gateway has found sim-d9: \(waited.out)")
        #expect(rollout?.devices?.done?.number == 2 && rollout?.devices?.waiting?.number == 0)
        let other = rollout?.not_enrolled
        #expect(other?.done?.number == 1 || other?.running?.number == 1, "\(waited.out)")
        let text = try await fleet.run(["rollout", "status", "summer", "--operators", "ops.pub.pem"])
        #expect(text.out.contains("updated last, only reported"), "\(text.out)")
        #expect(text.out.contains("3 listed devices; 1 without an update: not found, held, or not"), "\(text.out)")
        let events = try await fleet.json("fleet", "events", "--rollout", "summer").events?.array ?? []
        let notes = events.map { "\($0.device?.string ?? "-") \($0.text?.string ?? "-")" }
        #expect(notes.filter { !$0.hasPrefix("sim-d3") }.sorted() == ["sim-d1 -", "sim-d2 -"], "\(notes)")
        #expect(notes.filter { $0.hasPrefix("sim-d3") }.allSatisfy { $0.hasSuffix("the device is not enrolled") })
        let report = try await fleet.sandbox.run(["fleet", "report", "--html", "r.html", "--operators", "ops.pub.pem"])
        #expect(report.exit == 0, "\(report.err)")
        let page = String(decoding: try fleet.sandbox.read("r.html"), as: UTF8.self)
        #expect(page.contains("<td>not enrolled</td><td>updated last, only reported</td>"), "\(page)")
    }

    @Test(
        "without --enrolled, the Bluetooth devices that the store has known for 7 days or that have a group are enrolled"
    )
    func known() async throws {
        let fleet = try await Fleet(devices: 1)
        let store = try await store(fleet)
        let now = try #require(Timestamp(seconds: Int64(time(nil))))
        let week: Int64 = -7 * 86_400
        try await write("ble-AABBCCDDEE01", since: now.advanced(by: week), to: store)
        try await write("ble-AABBCCDDEE02", since: now.advanced(by: week + 120), to: store)
        try await write("ble-AABBCCDDEE03", since: nil, to: store)
        try await write("ble-AABBCCDDEE04", since: nil, groups: #""beta""#, to: store)
        try await write("ble-AABBCCDDEE05", since: now.advanced(by: week), product: "other", to: store)
        try await write("sim-old", since: now.advanced(by: week), to: store)
        let created = try await fleet.create("spring")
        let enrolled = try created.json().rollout?.enrolled
        #expect(enrolled?.links?.string == "bluetooth" && enrolled?.listed?.number == 2, "\(created.out)")
        let named = try await fleet.create("named", "--stages", "devices=ble-AABBCCDDEE02,100%")
        #expect(try named.json().rollout?.enrolled?.listed?.number == 3)
        let list = try await fleet.json("fleet", "devices").devices?.array ?? []
        let first = list.first { $0.id?.string == "ble-AABBCCDDEE01" }
        #expect(first?.since?.string == now.advanced(by: week).description)
    }

    @Test("a rollout whose known devices are all without enrolment causes a warning with the next step")
    func nobodyEnrolled() async throws {
        let fleet = try await Fleet(devices: 1)
        let store = try await store(fleet)
        try await write("ble-AABBCCDDEE01", since: nil, to: store)
        try await write("ble-AABBCCDDEE02", since: nil, to: store)
        let staged = try await fleet.create("staged", "--stages", "10%,100%")
        #expect(staged.err.contains("stage 1 needs 1 finished device"), "\(staged.err)")
        #expect(staged.err.contains("2 devices of demo without enrolment do not count"), "\(staged.err)")
        let whole = try await fleet.create("whole")
        let end = "cannot be complete, and nothing halts it: 2 devices of demo without enrolment"
        #expect(whole.err.contains(end), "\(whole.err)")
        #expect(whole.err.contains("create another rollout with --enrolled FILE"), "\(whole.err)")
        try fleet.sandbox.write("mine", Array("ble:AA:BB:CC:DD:EE:01\nble-AABBCCDDEE02\n".utf8))
        let right = try await fleet.create("right", "--enrolled", "mine")
        #expect(!right.err.contains("without enrolment"), "\(right.err)")
        #expect(try right.json().rollout?.enrolled?.listed?.number == 2)
    }

    @Test("each percentage of a small fleet has enough devices for the next stage, or a warning says that it cannot")
    func percentageOfFewDevices() async throws {
        let fleet = try await Fleet(devices: 1)
        try fleet.sandbox.write("mine", Array("sim-d1\nsim-d2\nsim-d3\nsim-d4\n".utf8))
        for number in 1...4 {
            let run = try await fleet.create(
                "small-\(number)", "--enrolled", "mine", "--stages", "devices=sim-d1,1%,25%,100%")
            #expect(!run.err.contains("for the next stage"), "\(run.err)")
        }
        let named = "devices=sim-d1+sim-d2+sim-d3+sim-d4,50%,100%"
        let empty = try await fleet.create("empty", "--enrolled", "mine", "--stages", named)
        let warning = "stage 2 needs 1 finished device for the next stage, but it admits only 0 of the known devices"
        #expect(empty.err.contains(warning), "\(empty.err)")
    }

    @Test("a file of --enrolled with a wrong line or without a device is refused with its line (exit 64)")
    func wrongFiles() async throws {
        let fleet = try await Fleet(devices: 1)
        for (text, problem) in [
            ("sim:d1\nble:name=Lamp\n", "mine, line 2: 'ble:name=Lamp' is not the ID or the address of a device"),
            ("# none yet\n", "mine has no device"),
        ] {
            try fleet.sandbox.write("mine", Array(text.utf8))
            let run = try await fleet.run(
                ["rollout", "create", "spring", "--release", fleet.release, "--select", "product=demo", "--key"]
                    + ["ops.pem", "--enrolled", "mine"])
            #expect(run.exit == 64 && run.err.contains(problem) && run.err.contains("hint: "), "\(run.err)")
        }
    }

    @Test("a rollout whose list the store has lost cannot be counted, and can be aborted")
    func lostList() async throws {
        let fleet = try await Fleet(devices: 1)
        try fleet.sandbox.write("mine", Array("sim-d1\n".utf8))
        try await fleet.create("spring", "--enrolled", "mine")
        let removal =
            "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute('DELETE FROM object'); d.commit()"
        let path = fleet.sandbox.path("state/fleet/fleet.db")
        #expect(try await Command.run(PythonEnvironment.python, ["-c", removal, path]).succeeded)
        let status = try await fleet.status("spring")
        #expect(try status.exit == 65 && status.json().error?.code?.string == "record-malformed")
        #expect(status.out.contains("the store does not have the list of the enrolled devices"), "\(status.out)")
        #expect(try await fleet.change("abort", "spring").exit == 0)
    }
}
