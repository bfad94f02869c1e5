import OTAFirmware
import OTAFleet
import OTASigning
import Testing

@Suite("Enrolled devices of a rollout") struct EnrolmentTests {
    private func id(_ text: String) throws -> DeviceID { try #require(DeviceID(text)) }

    @Test("a Bluetooth device that is not in the list gets the rollout in the last stage, and other links need no list")
    func links() throws {
        let (listed, stranger, wired) = (
            try id("ble-AABBCCDDEEFF"), try id("ble-C00000000001"), try id("udp-10-0-0-7-1337")
        )
        let list = try #require(EnrolledDevices([listed]))
        let group = try #require(GroupName("beta"))
        let stages = [
            try #require(Stage(.group(group))), try #require(Stage(.percent(100))), try #require(Stage(.percent(100))),
        ]
        let rollout = try Fixtures().rollout(stages: stages, enrolled: list)
        func first(_ device: DeviceID, _ list: EnrolledDevices, _ rollout: Rollout) -> Int? {
            rollout.firstStage(for: device, groups: [group], in: list)
        }
        #expect(
            first(listed, list, rollout) == 0 && first(wired, list, rollout) == 0 && first(stranger, list, rollout) == 2
        )
        #expect(first(listed, .none, rollout) == 2, "without its list, no device is enrolled by it")
        #expect(rollout.firstStage(for: stranger, groups: [], in: list) == 2)
        #expect((0...2).map { rollout.admits(stranger, groups: [group], in: list, upTo: $0) } == [false, false, true])
        let strict = try Fixtures().rollout(stages: stages, links: .all, enrolled: list)
        #expect(first(listed, list, strict) == 0 && first(wired, list, strict) == 2)
        #expect(strict.isEnrolled(listed, in: list) && !strict.isEnrolled(wired, in: list))
    }

    @Test("a device that no stage admits stays outside, enrolled or not")
    func notAdmitted() throws {
        let group = try #require(GroupName("beta"))
        let rollout = try Fixtures().rollout(stages: [#require(Stage(.group(group)))])
        #expect(try rollout.firstStage(for: id("ble-C00000000001"), groups: [], in: .none) == nil)
    }

    @Test("the list and the rollout are equal after they are written and parsed again")
    func roundTrip() throws {
        let list = try #require(EnrolledDevices([id("sim-b"), id("ble-AABBCCDDEEFF"), id("sim-b")]))
        #expect(String(decoding: list.encoded, as: UTF8.self) == "otaflash-enrolled-v1\nble-AABBCCDDEEFF\nsim-b\n")
        #expect(try EnrolledDevices(parsing: list.encoded) == list)
        #expect(list.digest == SHA256.digest(of: list.encoded) && EnrolledDevices.none.digest == nil)
        for links in Enrolment.Links.allCases {
            for list in [list, .none] {
                let rollout = try Fixtures().rollout(links: links, enrolled: list)
                #expect(try Rollout(payload: rollout.payload()) == rollout && rollout.enrolment.list == list.digest)
            }
        }
    }

    @Test(
        "a damaged list is refused",
        arguments: [
            "", "otaflash-enrolled-v1", "otaflash-enrolled-v1\nsim-a", "otaflash-enrolled-v2\nsim-a\n",
            "otaflash-enrolled-v1\nsim a\n", "otaflash-enrolled-v1\n\nsim-a\n", "sim-a\n",
        ])
    func damaged(_ text: String) {
        #expect(throws: FleetError(.malformed, "")) { try EnrolledDevices(parsing: Array(text.utf8)) }
    }

    @Test("a list has at most 100,000 devices")
    func limit() throws {
        let devices = try (0...EnrolledDevices.maximumCount).map { try id("sim-\($0)") }
        let most = try #require(EnrolledDevices(devices.dropLast()))
        #expect(EnrolledDevices(devices) == nil)
        #expect(try EnrolledDevices(parsing: most.encoded) == most)
        let next = most.encoded + Array("sim-x\n".utf8)
        #expect(throws: FleetError(.malformed, "")) { try EnrolledDevices(parsing: next) }
    }

    @Test("a rollout without a salt of 16 bytes, or without its enrolment, is refused with the name of the member")
    func members() throws {
        let salt = #""salt":"000102030405060708090a0b0c0d0e0f""#
        let payload = try String(decoding: Fixtures().rollout().payload(), as: UTF8.self)
        for (part, replacement, name) in [
            (salt + ",", "", "'salt'"), (salt, #""salt":"000102030405060708090a0b0c0d0e""#, "15 bytes"),
            (salt, #""salt":"000102030405060708090a0b0c0d0e0f10""#, "17 bytes"),
            (salt, #""salt":"000102030405060708090A0B0C0D0E0F""#, "'salt'"),
            (#""enrolled":{"links":"bluetooth"},"#, "", "'enrolled'"),
            (#"{"links":"bluetooth"}"#, #"{"links":"none"}"#, "'links'"),
            (#"{"links":"bluetooth"}"#, #"{"links":"all","sha256":"00"}"#, "'sha256'"),
        ] {
            let changed = payload.replacing(part, with: replacement)
            #expect(changed != payload)
            do throws(FleetError) {
                _ = try Rollout(payload: Array(changed.utf8))
                Issue.record("accepted: \(replacement)")
            } catch {
                #expect(error.code == .malformed && error.context.contains(name), "\(error.context)")
            }
        }
    }

    @Test("the first write of a device's record stays its first time")
    func since() throws {
        let fixtures = try Fixtures()
        let later = fixtures.created.advanced(by: 60)
        let unknown = try fixtures.record().changed(.hold, at: nil)
        #expect(unknown.since == nil)
        let first = try unknown.changed(.unhold, at: fixtures.created)
        let second = try first.changed(.hold, at: later)
        #expect(second.since == fixtures.created && second.at == later)
        #expect(try DeviceRecord(parsing: second.encoded()).since == fixtures.created)
    }
}
