import Gauntlet
import OTASMP
import OTASimulator
import OTAUpdate
import Testing

/// 60 KiB over SMP. Three packets of 2475 bytes are in flight, and one packet starts the upload again.
///
/// The device loses the upload when it restarts.
@Suite("Faults at every position of an update over SMP", .serialized) struct ExhaustiveSMPCutTests {
    private let cuts: Cuts<SMPWire>

    init() throws {
        let release = try SMPRelease(bytes: 60 * 1024)
        let push = UpdateTask.push([SMPImage(release.verified)], UpdateOptions())
        cuts = try Cuts(of: push, resume: push, windowBytes: 3 * 2475 + 32, pageBytes: nil) {
            try World(release, faults: $0)
        }
    }

    @Test("an SMP update ends confirmed when the link is lost after any event of the host")
    func theLinkIsCutAfterEveryEventOfTheHost() throws { try cuts.ofTheLinkAfterEveryEventOfTheHost() }

    @Test("an SMP update ends confirmed when the link is lost after any packet to the device")
    func theLinkIsCutAfterEveryPacketToTheDevice() throws { try cuts.ofTheLinkAfterEveryPacketToTheDevice() }

    @Test(
        "an SMP update ends confirmed or rolled back when the device loses power at any flash operation",
        arguments: PowerCut.Moment.allCases)
    func theDeviceLosesPowerAtEveryFlashOperation(moment: PowerCut.Moment) throws {
        try cuts.ofThePowerAtEveryFlashOperation(moment)
    }

    @Test("the next push resumes or completes an SMP update whose client was killed at any event")
    func theClientIsKilledAtEveryEvent() throws { try cuts.ofTheClientAtEveryEvent() }
}
