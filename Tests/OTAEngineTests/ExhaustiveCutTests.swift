import Gauntlet
import OTAProfile
import OTASimulator
import OTAUpdate
import Testing

/// 100 KiB at MTU 247: 242 image bytes in a chunk, 64 chunks in a window.
@Suite(.serialized) struct ExhaustiveCutTests {
    private let cuts: Cuts<ProfileWire>

    init() throws {
        let release = try Release(bytes: 100 * 1024)
        cuts = try Cuts(
            of: .push(release.bundle, UpdateOptions()), resume: .push(release.bundle, UpdateOptions(resume: true)),
            windowBytes: 64 * 242, pageBytes: 4096
        ) { try World(release, faults: $0) }
    }

    @Test func theLinkIsCutAfterEveryEventOfTheHost() throws { try cuts.ofTheLinkAfterEveryEventOfTheHost() }

    @Test func theLinkIsCutAfterEveryPacketToTheDevice() throws { try cuts.ofTheLinkAfterEveryPacketToTheDevice() }

    @Test(arguments: PowerCut.Moment.allCases)
    func theDeviceLosesPowerAtEveryFlashOperation(moment: PowerCut.Moment) throws {
        try cuts.ofThePowerAtEveryFlashOperation(moment)
    }

    @Test(
        "one flash operation that fails with the power on costs a retry, and never the device",
        arguments: FlashFault.Kind.allCases)
    func oneFlashOperationFails(kind: FlashFault.Kind) throws { try cuts.ofTheFlashAtEveryOperation(kind) }

    @Test func theClientIsKilledAtEveryEvent() throws { try cuts.ofTheClientAtEveryEvent() }
}
