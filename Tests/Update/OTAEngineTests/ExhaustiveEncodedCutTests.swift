import Gauntlet
import OTAProfile
import OTASimulator
import OTAUpdate
import Testing

/// 96 KiB at MTU 247, as a large delta of about 40 % of the size, and compressed.
@Suite("Faults at every position of an update with an encoded image", .serialized) struct ExhaustiveEncodedCutTests {
    enum Form: String, CaseIterable, CustomTestStringConvertible {
        case delta, compressed
        var testDescription: String { rawValue }
    }

    /// An estimate of bytes in a chunk of the encoding can be wrong by this number, and a new stream learns again.
    private static let newStream = 200

    private func cuts(_ form: Form) throws -> (Cuts<ProfileWire>, EncodedRelease) {
        let release = try EncodedRelease(bytes: 96 * 1024, changes: 12_000, knowsBase: form == .delta)
        let cuts = try Cuts(
            of: release.push(resume: .never), resume: release.push(), windowBytes: 64 * 242 + Self.newStream,
            pageBytes: 4096 + Self.newStream, leastPackets: 80, encoder: release.encoder
        ) { try release.world(faults: $0) }
        return (cuts, release)
    }

    @Test(
        "an encoded update ends confirmed when the link is lost after any event of the host", arguments: Form.allCases)
    func theLinkIsCutAfterEveryEventOfTheHost(form: Form) throws {
        try cuts(form).0.ofTheLinkAfterEveryEventOfTheHost()
    }

    @Test(
        "an encoded update ends confirmed when the link is lost after any packet to the device",
        arguments: Form.allCases)
    func theLinkIsCutAfterEveryPacketToTheDevice(form: Form) throws {
        try cuts(form).0.ofTheLinkAfterEveryPacketToTheDevice()
    }

    @Test(
        "an encoded update ends confirmed or rolled back when the device loses power at any flash operation",
        arguments: Form.allCases, PowerCut.Moment.allCases)
    func theDeviceLosesPowerAtEveryFlashOperation(form: Form, moment: PowerCut.Moment) throws {
        try cuts(form).0.ofThePowerAtEveryFlashOperation(moment)
    }

    @Test(
        "after any single failed flash operation of an encoded update the next push ends with the new image",
        arguments: Form.allCases, FlashFault.Kind.allCases)
    func oneFlashOperationFails(form: Form, kind: FlashFault.Kind) throws {
        try cuts(form).0.ofTheFlashAtEveryOperation(kind)
    }

    @Test(
        "the next push completes an encoded update whose client was killed at any event", arguments: Form.allCases)
    func theClientIsKilledAtEveryEvent(form: Form) throws { try cuts(form).0.ofTheClientAtEveryEvent() }

    @Test("a plain push completes an encoded update whose client was killed at any event", arguments: Form.allCases)
    func plainAfterEncoded(form: Form) throws {
        let (cuts, release) = try cuts(form)
        try cuts.ofTheClientAtEveryEvent([release.encoder, nil])
    }

    @Test("an encoded push completes a plain update whose client was killed at any event")
    func encodedAfterPlain() throws {
        let (cuts, release) = try cuts(.delta)
        try cuts.ofTheClientAtEveryEvent([nil, release.encoder])
    }
}
