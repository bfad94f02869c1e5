import OTAFirmware
import OTAFleet
import OTASigning
import Testing

@Suite("Releases of a fleet") struct FleetReleaseTests {
    @Test("a release accepts its own bundle, and names every value in which another bundle differs")
    func check() throws {
        let fixtures = try Fixtures()
        let release = try fixtures.release().value
        try release.check(fixtures.bundle)
        for other in [
            try Fixtures.bundle(version: "1.4.1", signedBy: fixtures.bundleKey),
            try Fixtures.bundle(counter: 6, signedBy: fixtures.bundleKey),
            try Fixtures.bundle(product: "acme-sensor", signedBy: fixtures.bundleKey),
            try Fixtures.bundle(image: [1, 2, 4], signedBy: fixtures.bundleKey),
            try Fixtures.bundle(signedBy: fixtures.strangerKey),
        ] {
            #expect(throws: FleetError(.badRelease, "")) { try release.check(other) }
        }
    }

    @Test(
        "a release whose values differ from the manifest is refused, although its digests match",
        arguments: [(#""counter":7"#, #""counter":8"#), ("1.4.0", "1.5.0"), ("acme-thermostat", "acme-sensor")])
    func wrongValues(part: String, replacement: String) throws {
        let fixtures = try Fixtures()
        let payload = try String(decoding: fixtures.release().value.payload(), as: UTF8.self)
        let changed = payload.replacing(part, with: replacement)
        #expect(changed != payload)
        #expect(throws: FleetError(.badRelease, "")) {
            try FleetRelease(payload: Array(changed.utf8)).check(fixtures.bundle)
        }
    }

    @Test("a withdrawn release is the next version of the record")
    func withdrawn() throws {
        let fixtures = try Fixtures()
        let record = try fixtures.operators.withdraw(fixtures.release(), with: fixtures.operatorKey)
        let withdrawn = try fixtures.operators.release(record.encoded())
        #expect(withdrawn.value.state == .withdrawn && withdrawn.value.serial == 2)
        #expect(withdrawn.value.id == (try fixtures.release()).value.id)
    }

    @Test("a release whose ID is not the start of its manifest's digest is refused")
    func wrongID() throws {
        let fixtures = try Fixtures()
        let release = try fixtures.release().value
        let payload = try String(decoding: release.payload(), as: UTF8.self)
            .replacing(#""release":"\#(release.id)""#, with: #""release":"0000000000000000""#)
        #expect(throws: FleetError(.malformed, "")) { try FleetRelease(payload: Array(payload.utf8)) }
    }
}
