import Gauntlet
import OTAProfile
import OTASimulator
import OTAUpdate
import Testing

/// 100 KiB at MTU 247: a chunk has 242 image bytes, and a window has 64 chunks.
@Suite("Faults at every position of an update over the OTA profile", .serialized) struct ExhaustiveCutTests {
    private let cuts: Cuts<ProfileWire>

    init() throws {
        let release = try ExampleRelease(bytes: 100 * 1024)
        cuts = try Cuts(
            of: .push(release.bundle, UpdateOptions(resume: .never)), resume: .push(release.bundle, UpdateOptions()),
            windowBytes: 64 * 242, pageBytes: 4096
        ) { try World(release, faults: $0) }
    }

    @Test("an update ends confirmed when the link is lost after any event of the host")
    func theLinkIsCutAfterEveryEventOfTheHost() throws { try cuts.ofTheLinkAfterEveryEventOfTheHost() }

    @Test("an update ends confirmed when the link is lost after any packet to the device")
    func theLinkIsCutAfterEveryPacketToTheDevice() throws { try cuts.ofTheLinkAfterEveryPacketToTheDevice() }

    @Test(
        "an update ends confirmed or rolled back when the device loses power at any flash operation",
        arguments: PowerCut.Moment.allCases)
    func theDeviceLosesPowerAtEveryFlashOperation(moment: PowerCut.Moment) throws {
        try cuts.ofThePowerAtEveryFlashOperation(moment)
    }

    @Test(
        "after any single failed flash operation the device still boots, and the next push ends with the new image",
        arguments: FlashFault.Kind.allCases)
    func oneFlashOperationFails(kind: FlashFault.Kind) throws { try cuts.ofTheFlashAtEveryOperation(kind) }

    @Test("the next push resumes or completes an update whose client was killed at any event")
    func theClientIsKilledAtEveryEvent() throws { try cuts.ofTheClientAtEveryEvent() }
}
