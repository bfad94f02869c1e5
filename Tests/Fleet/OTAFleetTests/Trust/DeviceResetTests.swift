import OTAFirmware
import OTAFleet
import OTASigning
import Testing

@Suite("Resets of devices") struct DeviceResetTests {
    @Test("a reset record has no job, keeps the groups, and proves its time and its operator also after other writes")
    func reset() throws {
        let fixtures = try Fixtures()
        let old = try fixtures.record()
            .changed(.group([#require(GroupName("beta"))]), at: nil)
            .changed(.lease(rollout: fixtures.name, created: fixtures.created, holder: fixtures.a), at: nil)
            .changed(.giveUp(.rolledBack, by: fixtures.a), at: nil)
        let reset = DeviceReset(device: fixtures.device, at: fixtures.created)
        let signed = try fixtures.operators.sign(reset, with: fixtures.operatorKey)
        let record = DeviceRecord(of: reset, signed: signed, replacing: old)
        #expect(record.state == .idle && record.rollout == nil && record.attempt == 0 && record.reason == nil)
        #expect(record.groups.map(\.text) == ["beta"] && record.product == fixtures.product)
        let later = try DeviceRecord(parsing: record.encoded())
            .changed(.lease(rollout: fixtures.name, created: fixtures.created, holder: fixtures.b), at: nil)
        let bytes = try #require(try DeviceRecord(parsing: later.encoded()).reset)
        let verified = try fixtures.operators.reset(bytes, of: fixtures.device)
        #expect(verified.value == reset && verified.signers == [fixtures.operatorKey.publicKey.id])
        #expect(old.reset == nil)
    }

    @Test("a reset of another device, of a stranger, or of another kind is refused")
    func refused() throws {
        let fixtures = try Fixtures()
        let reset = DeviceReset(device: fixtures.device, at: fixtures.created)
        let bytes = try fixtures.operators.sign(reset, with: fixtures.operatorKey).encoded()
        let other = try #require(DeviceID("sim-1"))
        #expect(throws: FleetError(.untrusted, "")) { try fixtures.operators.reset(bytes, of: other) }
        #expect(throws: FleetError(.untrusted, "")) { try fixtures.operators.sign(reset, with: fixtures.strangerKey) }
        let forged = try SignedRecord(signing: reset, with: fixtures.strangerKey).encoded()
        #expect(throws: FleetError(.untrusted, "")) { try fixtures.operators.reset(forged, of: fixtures.device) }
        let rollout = try fixtures.operators.sign(fixtures.rollout(), with: fixtures.operatorKey).encoded()
        #expect(throws: FleetError(.malformed, "")) { try fixtures.operators.reset(rollout, of: fixtures.device) }
    }
}
