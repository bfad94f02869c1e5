import Gauntlet
import OTASMP
import OTASimulator
import OTAUpdate
import Testing

/// 60 KiB over SMP, whose device keeps nothing of an upload when it restarts: three packets of 2475 bytes under way, and the one that
/// opens the upload anew.
@Suite(.serialized) struct ExhaustiveSMPCutTests {
    private let cuts: Cuts<SMPWire>

    init() throws {
        let release = try SMPRelease(bytes: 60 * 1024)
        let push = UpdateTask.push([SMPImage(release.verified)], UpdateOptions())
        cuts = try Cuts(of: push, resume: push, windowBytes: 3 * 2475 + 32, pageBytes: nil) {
            try World(release, faults: $0)
        }
    }

    @Test func theLinkIsCutAfterEveryEventOfTheHost() throws { try cuts.ofTheLinkAfterEveryEventOfTheHost() }

    @Test func theLinkIsCutAfterEveryPacketToTheDevice() throws { try cuts.ofTheLinkAfterEveryPacketToTheDevice() }

    @Test(arguments: PowerCut.Moment.allCases)
    func theDeviceLosesPowerAtEveryFlashOperation(moment: PowerCut.Moment) throws {
        try cuts.ofThePowerAtEveryFlashOperation(moment)
    }

    @Test func theClientIsKilledAtEveryEvent() throws { try cuts.ofTheClientAtEveryEvent() }
}
