import Gauntlet
import OTAEngine
import OTASMP
import OTASigning
import OTASimulator
import OTATransport
import OTAUpdate
import Testing

/// A virtual SMP device, the modelled radio before it, and the virtual time in which both live.
struct SMPWorld {
    let time: VirtualTime
    let device: VirtualSMPDevice
    let transport: SimulatedTransport<VirtualTime>
    let release: SMPRelease

    init(
        _ release: SMPRelease, radio: RadioModel = RadioModel(), faults: FaultPlan = FaultPlan(), seed: UInt64 = 1,
        adjust: (inout VirtualSMPConfiguration) -> Void = { _ in }
    ) throws {
        time = VirtualTime()
        self.release = release
        var configuration = VirtualSMPConfiguration(trustedKeys: [release.key])
        // As large as the image needs: a world is made anew for every cut.
        configuration.layout = FlashLayout(slotSize: release.image.bytes.count.roundedUp(to: 4096))
        adjust(&configuration)
        device = try VirtualSMPDevice(configuration)
        transport = SimulatedTransport(device: device, clock: time, radio: radio, faults: faults, seed: seed)
    }

    typealias Run = World.Run

    /// Runs clients one after the other, each with its task, in one stretch of virtual time.
    ///
    /// - Parameters:
    ///   - deaths: for each client the number of the event before which it dies; nil: it lives.
    ///   - way: another one than the modelled radio.
    func run(
        _ tasks: [SMPTask], deaths: [Int?] = [], seed: UInt64 = 1, over way: (any Transport)? = nil
    ) throws -> [Run] {
        let (time, transport) = (time, way ?? transport)
        return try time.run {
            var runs: [Run] = []
            for (index, task) in tasks.enumerated() {
                let tally = Tally()
                let death = index < deaths.count ? deaths[index] : nil
                let smp = SMPSession(task, seed: seed &+ UInt64(index))
                let session = MortalSession(smp, tally, diesAt: death) { $0.sentOffset }
                let runner = UpdateRunner(clock: time) { progress, _ in tally.reports.append(progress) }
                let interrupts = AsyncStream<Void> { $0.finish() }
                let start = time.now
                var outcome: Result<UpdateReport, UpdateError>
                do throws(UpdateError) {
                    outcome = .success(try await runner.run(session, over: transport, interrupts: interrupts))
                } catch {
                    outcome = .failure(error)
                }
                runs.append(Run(outcome, tally, in: start.duration(to: time.now)))
            }
            return runs
        }
    }

    var push: SMPTask { push(SMPPushOptions()) }
    func push(_ options: SMPPushOptions) -> SMPTask { .push([SMPImage(release.image)], options) }

    func run(_ options: SMPPushOptions = SMPPushOptions()) throws -> Run {
        try #require(try run([push(options)]).first)
    }

    /// The new image runs for good, byte for byte.
    var runsNewImage: Bool { isSettled && device.runningImage == release.image.bytes }
    /// The image that it came with runs, and nothing is about to change that.
    var runsOldImage: Bool { isSettled && device.runningImage.map { $0 != release.image.bytes } ?? false }

    private var isSettled: Bool {
        guard let running = device.running, let state = device.bootState else { return false }
        return state.permanent == running.slot && state.trial == BootState.Trial.none
    }
}
