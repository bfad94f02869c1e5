import OTAEngine
import OTAFirmware
import OTAProfile
import OTASigning
import OTASimulator
import OTATransport
import OTAUpdate
import Testing

/// A virtual device, the modelled radio before it, and the virtual time in which both live.
struct World {
    let time: VirtualTime
    let device: VirtualDevice
    let transport: SimulatedTransport<VirtualTime>
    let release: Release
    let factoryImage: [UInt8]

    init(
        _ release: Release, radio: RadioModel = RadioModel(), faults: FaultPlan = FaultPlan(), seed: UInt64 = 1,
        adjust: (inout VirtualDeviceConfiguration) -> Void = { _ in }
    ) throws {
        time = VirtualTime()
        self.release = release
        var configuration = VirtualDeviceConfiguration(
            product: release.bundle.bundle.envelope.manifest.product, trustedKeys: [release.key])
        // As large as the image needs: a world is made anew for every cut.
        configuration.layout = FlashLayout(slotSize: release.image.count.roundedUp(to: 4096))
        adjust(&configuration)
        let version = try #require(SemanticVersion("1.0.0"))
        device = try VirtualDevice(configuration, version: version, securityCounter: 1)
        transport = SimulatedTransport(device: device, clock: time, radio: radio, faults: faults, seed: seed)
        factoryImage = try #require(device.factoryImage)
    }

    /// What became of one run of a client.
    struct Run: Sendable {
        var outcome: Result<UpdateReport, UpdateError>
        var tally: Tally
        var report: UpdateReport? { try? outcome.get() }
        var error: UpdateError.Code? {
            if case .failure(let error) = outcome { return error.code }
            return nil
        }
    }

    /// Runs clients one after the other, each with its task, in one stretch of virtual time.
    ///
    /// - Parameters:
    ///   - deaths: for each client the number of the event before which it dies; nil: it lives.
    ///   - pauses: for each client how long nothing happens after it.
    func run(
        _ tasks: [ProfileTask], deaths: [Int?] = [], pauses: [Duration] = [], seed: UInt64 = 1
    ) throws -> [Run] {
        let (time, transport) = (time, transport)
        return try time.run {
            var runs: [Run] = []
            for (index, task) in tasks.enumerated() {
                let tally = Tally()
                let death = index < deaths.count ? deaths[index] : nil
                let profile = ProfileSession(task, seed: seed &+ UInt64(index))
                let session = MortalSession(profile, tally, diesAt: death) { $0.sentOffset }
                let runner = UpdateRunner(clock: time) { progress, _ in tally.reports.append(progress) }
                let interrupts = AsyncStream<Void> { $0.finish() }
                do throws(UpdateError) {
                    let report = try await runner.run(session, over: transport, interrupts: interrupts)
                    runs.append(Run(outcome: .success(report), tally: tally))
                } catch {
                    runs.append(Run(outcome: .failure(error), tally: tally))
                }
                if index < pauses.count { try await time.sleep(for: pauses[index]) }
            }
            return runs
        }
    }

    func push(_ options: PushOptions = PushOptions()) throws -> Run {
        try #require(try run([.push(release.bundle, options)]).first)
    }

    /// The new image runs for good, byte for byte.
    var runsNewImage: Bool { runsForGood(release.image) }
    /// The image that it came with runs, and nothing is about to change that.
    var runsOldImage: Bool { runsForGood(factoryImage) }

    private func runsForGood(_ image: [UInt8]) -> Bool {
        guard let running = device.running, let state = device.bootState else { return false }
        return device.runningImage == image && state.permanent == running.slot && state.trial == BootState.Trial.none
    }
}

extension VirtualDevice {
    /// As it is before the first boot, when nothing runs yet.
    fileprivate var factoryImage: [UInt8]? {
        Array("factory firmware of \(configuration.product.text), version 1.0.0\n".utf8)
    }
}

extension Int {
    func roundedUp(to unit: Int) -> Int { (self + unit - 1) / unit * unit }
}
