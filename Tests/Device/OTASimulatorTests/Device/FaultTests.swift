import OTAEngine
import OTASimulator
import OTAUpdate
import Testing

/// Runs a complete update with each fault of a plan, and checks the effect of the fault.
@Suite("Updates with injected faults") struct FaultTests {
    private static let release = Result { try SimulatorRelease(imageSize: 7 * 512 + 100) }

    private struct Course {
        var links: Int
        var device: VirtualDevice
        var statistics: SimulationStatistics
    }

    private func update(
        _ faults: FaultPlan, seed: UInt64 = 1, _ change: (inout VirtualDeviceConfiguration) -> Void = { _ in }
    ) throws -> Course {
        let release = try Self.release.get()
        let time = VirtualTime()
        let device = try release.device(change)
        let transport = SimulatedTransport(device: device, clock: time, faults: faults, seed: seed)
        let links = try time.run { try await release.install(over: transport, at: time) }
        #expect(device.runningImage == release.image)
        #expect(device.running?.isOnTrial == false || device.bootState?.trial == BootState.Trial.none)
        #expect(device.flashViolationCount == 0)
        return Course(links: links, device: device, statistics: transport.statistics)
    }

    @Test("an update without faults uses two links and one restart")
    func withoutAFaultItTakesTwoLinksAndOneRestart() throws {
        let course = try update(FaultPlan())
        #expect(course.links == 2)
        #expect(course.device.restartCount == 1)
        #expect(course.device.running?.image.securityCounter == 5)
    }

    @Test("the link breaks once for each fraction in dropAt, and the update completes")
    func theLinkBreaksOnceForEachPart() throws {
        var faults = FaultPlan()
        faults.dropAt = [0.3, 0.6, 1]
        let course = try update(faults)
        #expect(course.links == 2 + 3)
        #expect(course.device.restartCount == 1)
    }

    @Test("the device restarts once for each fraction in resetAt, and the update completes")
    func powerFailsOnceForEachPart() throws {
        var faults = FaultPlan()
        faults.resetAt = [0, 0.5]
        let course = try update(faults)
        #expect(course.links == 2 + 2)
        #expect(course.device.restartCount == 1 + 2)
    }

    @Test("a device that disappears at goneAt does not return and keeps its old image")
    func aDeviceThatIsGoneStaysSo() throws {
        let release = try Self.release.get()
        var faults = FaultPlan()
        faults.goneAt = 0.5
        let time = VirtualTime()
        let device = try release.device()
        let transport = SimulatedTransport(device: device, clock: time, faults: faults)
        #expect(throws: TinyHost.Lost.self) { try time.run { try await release.install(over: transport, at: time) } }
        #expect(transport.statistics.links == 1)
        #expect(device.running?.image.version == "1.0.0")
    }

    @Test("an update completes on the same links when 40 % of the chunks are lost", arguments: 1...5)
    func lostChunksAreSentAgain(seed: UInt64) throws {
        var faults = FaultPlan()
        faults.gap = 0.4
        let course = try update(faults, seed: seed)
        #expect(course.links == 2)
        let whole = try update(FaultPlan(), seed: seed)
        #expect(course.statistics.devicePackets > whole.statistics.devicePackets)
    }

    @Test("the device retries a notification when the stack has no free buffer", arguments: 1...5)
    func aStackWithoutBuffersIsOfferedTheAnswerAgain(seed: UInt64) throws {
        var faults = FaultPlan()
        faults.notificationRefusal = 0.7
        #expect(try update(faults, seed: seed).links == 2)
    }

    @Test("an update completes when 5 % of the notifications are lost", arguments: 1...5)
    func aLostAnswerCostsTheLink(
        seed: UInt64
    ) throws {
        var faults = FaultPlan()
        faults.notificationLoss = 0.05
        let course = try update(faults, seed: seed)
        #expect(course.links >= 2)
        #expect(!course.device.isUnbootable)
    }

    @Test("an update completes after a link loss at any event to the host or packet to the device")
    func aCutAfterEachEventAndAfterEachPacketDoesNoHarm() throws {
        let whole = try update(FaultPlan()).statistics
        #expect(whole.hostEvents > 15 && whole.devicePackets > 25)
        for count in 1...whole.hostEvents {
            var faults = FaultPlan()
            faults.cutAfterHostEvents = [count]
            // A link loss after the answer to the confirmation needs no third link.
            #expect(try update(faults).links >= 2)
        }
        for count in 1...whole.devicePackets {
            var faults = FaultPlan()
            faults.cutAfterDevicePackets = [count]
            #expect(try update(faults).links >= 2)
        }
    }
}

/// Cuts the power before, during and after every flash operation of an update.
@Suite("Updates with power cuts at every flash operation") struct ExhaustivePowerCutTests {
    @Test("an update completes after one or two power cuts at any flash operation", arguments: [512, 1024])
    func noPowerCutDoesLastingHarm(pageSize: Int) throws {
        let release = try SimulatorRelease(imageSize: 3 * pageSize + 100)
        func update(_ cuts: [PowerCut]) throws -> VirtualDevice {
            let time = VirtualTime()
            let device = try release.device { $0.layout = FlashLayout(pageSize: pageSize, slotSize: 4 * pageSize) }
            var faults = FaultPlan()
            faults.powerCuts = cuts
            let transport = SimulatedTransport(device: device, clock: time, faults: faults)
            _ = try time.run { try await release.install(over: transport, at: time) }
            #expect(!device.isUnbootable)
            #expect(device.runningImage == release.image)
            #expect(device.flashViolationCount == 0)
            // The confirmed image is permanent: it boots again after a power cut.
            device.losePower(at: time.now.offset)
            _ = device.poll(at: time.now.offset + .seconds(10))
            #expect(device.running?.image.version == release.version && device.running?.isOnTrial == false)
            return device
        }
        let made = try release.device { $0.layout = FlashLayout(pageSize: pageSize, slotSize: 4 * pageSize) }
        let operations = try update([]).flashOperationCount - made.flashOperationCount
        #expect(operations > 12)
        for first in 1...operations {
            for moment in PowerCut.Moment.allCases {
                _ = try update([PowerCut(operation: first, moment: moment)])
                for second in 1...4 {
                    _ = try update([
                        PowerCut(operation: first, moment: moment),
                        PowerCut(operation: first + second, moment: .during),
                    ])
                }
            }
        }
    }
}
