import OTAFirmware
import OTAFleet
import Testing

@Suite("Stages of a rollout") struct StageTests {
    @Test(
        "the place of a device is that of the design, computed with Python's hashlib",
        arguments: [
            ("ble-AABBCCDDEEFF", 7334, 2099), ("udp-10_0_0_7-1337", 5677, 3600), ("sim-kitchen", 2149, 2050),
            ("serial-dev-ttyACM0", 1429, 9202),
        ])
    func places(device: String, place: Int, other: Int) throws {
        let device = try #require(DeviceID(device))
        #expect(Stage.place(of: device, salt: (0..<16).map { $0 }) == place)
        #expect(Stage.place(of: device, salt: (16..<32).map { $0 }) == other)
    }

    @Test("each stage admits the devices of the stages before it, and about its part of all devices")
    func nesting() throws {
        let rollout = try Fixtures().rollout()
        var counts = [0, 0, 0]
        for number in 0..<10_000 {
            let device = try #require(DeviceID("sim-\(number)"))
            let admitted = (0...2).map { rollout.admits(device, groups: [], in: .none, upTo: $0) }
            #expect(admitted == admitted.sorted { !$0 && $1 })
            for stage in 0...2 where admitted[stage] { counts[stage] += 1 }
        }
        // Six standard deviations of a binomial distribution around 100 and 1000.
        #expect((40...160).contains(counts[0]) && (820...1180).contains(counts[1]) && counts[2] == 10_000)
    }

    @Test("a stage of n % admits the places below 100 n, and not the place 100 n")
    func firstPlaceAbove() throws {
        let rollout = try Fixtures().rollout()
        let devices = try (0..<100_000).map { try #require(DeviceID("sim-\($0)")) }
        let places = Dictionary(devices.map { (Stage.place(of: $0, salt: rollout.salt), $0) }) { first, _ in first }
        let (last, next) = (try #require(places[99]), try #require(places[100]))
        #expect(
            rollout.firstStage(for: last, groups: [], in: .none) == 0
                && rollout.firstStage(for: next, groups: [], in: .none) == 1)
    }

    @Test("the places of two rollouts with the same name and another salt are independent")
    func otherRollout() throws {
        let (one, two) = (try Fixtures().rollout(salt: 1), try Fixtures().rollout(salt: 2))
        let both = try (0..<10_000).count { number in
            let device = try #require(DeviceID("sim-\(number)"))
            return one.admits(device, groups: [], in: .none, upTo: 1)
                && two.admits(device, groups: [], in: .none, upTo: 1)
        }
        #expect((40...160).contains(both))
    }

    @Test("a stage of chosen devices or of a group admits them also in later stages")
    func canary() throws {
        let fixtures = try Fixtures()
        let group = try #require(GroupName("berlin"))
        let rollout = try fixtures.rollout(stages: [
            #require(Stage(.devices([fixtures.device]))), #require(Stage(.group(group))), #require(Stage(.percent(1))),
        ])
        let list = try #require(EnrolledDevices([fixtures.device]))
        let other = try #require(DeviceID("udp-10_0_0_7-1337"))
        #expect((0...2).allSatisfy { rollout.admits(fixtures.device, groups: [], in: list, upTo: $0) })
        #expect((0...2).map { rollout.admits(other, groups: [group], in: .none, upTo: $0) } == [false, true, true])
        #expect((0...2).allSatisfy { !rollout.admits(other, groups: [], in: .none, upTo: $0) })
        #expect(
            rollout.firstStage(for: other, groups: [group], in: .none) == 1
                && rollout.firstStage(for: other, groups: [], in: .none) == nil)
        #expect(try Rollout(payload: rollout.payload()) == rollout)
    }

    @Test("a rollout with a value out of its range is refused, as a new plan and as a record")
    func ranges() throws {
        let fixtures = try Fixtures()
        #expect(Stage(.percent(0)) == nil && Stage(.percent(101)) == nil && Stage(.percent(1), minimum: 0) == nil)
        #expect(throws: FleetError(.badChange, "")) { try fixtures.rollout(stages: []) }
        #expect(throws: FleetError(.badChange, "")) { try fixtures.rollout(attempts: 0) }
        #expect(throws: FleetError(.badChange, "")) { try fixtures.rollout(created: fixtures.expires) }
        let payload = try String(decoding: fixtures.rollout().payload(), as: UTF8.self)
        for (part, replacement) in [
            (#""percent":10,"#, #""percent":10,"group":"a","#), (#""percent":10,"#, ""),
            (#""percent":10,"#, #""percent":0,"#),
            (#""attempts":3"#, #""attempts":1001"#), (#""serial":1"#, #""serial":0"#),
            (#""failed_percent":5"#, #""failed_percent":101"#),
            (#""running":"<1.4.0""#, #""running":"1.4.0""#), (#""created":"2026-11"#, #""created":"2027-11"#),
        ] {
            let changed = payload.replacing(part, with: replacement)
            #expect(changed != payload)
            #expect(throws: FleetError(.malformed, ""), "\(replacement)") { try Rollout(payload: Array(changed.utf8)) }
        }
    }

    @Test(
        "a condition for the version compares as SemVer does",
        arguments: [
            ("<1.4.0", "1.4.0-rc.1", true), ("<1.4.0", "1.4.0", false), ("<1.4.0", "1.10.0", false),
            ("<=1.4.0", "1.4.0", true),
            ("=1.4.0", "1.4.0+build", true), ("=1.4.0", "1.4.1", false), (">=1.4.0", "1.4.0", true),
            (">1.4.0", "1.4.0", false),
            (">1.4.0", "2.0.0-a", true),
        ])
    func versions(condition: String, version: String, isSelected: Bool) throws {
        let fixtures = try Fixtures()
        let running: VersionCondition = try #require(VersionCondition(condition))
        let selection = Selection(product: fixtures.product, running: running)
        #expect(
            selection.includes(product: fixtures.product, version: SemanticVersion(version), groups: []) == isSelected)
        #expect(!selection.includes(product: nil, version: SemanticVersion(version), groups: []))
        #expect(!selection.includes(product: fixtures.product, version: nil, groups: []))
    }

    @Test(
        "a condition that only newer versions than 1.4.0 meet is recognised",
        arguments: [
            (">1.4.0", true), (">1.3.9", false), (">=1.4.0", false), (">=1.4.1", true), ("=1.4.0", false),
            ("=1.4.1", true), ("<9.0.0", false), ("<=9.0.0", false),
        ])
    func onlyNewer(condition: String, isOnlyNewer: Bool) throws {
        let running: VersionCondition = try #require(VersionCondition(condition))
        #expect(running.isOnly(above: try #require(SemanticVersion("1.4.0"))) == isOnlyNewer)
    }

    @Test(
        "a selection without downgrades contains no device with a newer version",
        arguments: [
            ("1.4.0-rc.1", true), ("1.4.0", true), ("1.4.0+build", true), ("1.4.1-a", false), ("2.0.0", false),
        ])
    func newest(version: String, isSelected: Bool) throws {
        let product = try Fixtures().product
        let selection = Selection(product: product, newest: SemanticVersion("1.4.0"))
        #expect(selection.includes(product: product, version: SemanticVersion(version), groups: []) == isSelected)
        #expect(selection.includes(product: product, version: nil, groups: []))
        #expect(Selection(product: product).includes(product: product, version: SemanticVersion(version), groups: []))
    }
}
