import Gauntlet
import OTAEngine
import OTAFirmware
import OTAProfile
import OTASigning
import OTASimulator
import OTAUpdate

/// A release, the older version of it that runs on the device, and the client's bases and encoder.
struct EncodedRelease {
    let release: ExampleRelease
    let old: [UInt8]
    let bases: Bases
    let encoder: UpdateRunner<VirtualTime>.Encoder

    /// - Parameters:
    ///   - count: the size of the new image.
    ///   - changes: the number of bytes that differ between the versions, besides a moved part.
    ///   - knowsBase: the client has the running image.
    ///   - others: other images that the client has, which come first.
    init(bytes count: Int, changes: Int = 40, knowsBase: Bool = true, others: [[UInt8]] = []) throws {
        let image = Firmware.image(bytes: count, seed: 3)
        release = try ExampleRelease(image: image)
        old = Array(Firmware.changed(image, changes: changes, seed: 5).prefix(count))
        bases = Bases((others + (knowsBase ? [old] : [])).map { ($0, nil) })
        encoder = bases.encoder(for: release)
    }

    func options(resume: UpdateOptions.Resume = .automatic) -> UpdateOptions {
        UpdateOptions(resume: resume, bases: bases.list)
    }
    func push(resume: UpdateOptions.Resume = .automatic) -> UpdateTask<VerifiedBundle> {
        .push(release.bundle, options(resume: resume))
    }

    func world(
        radio: RadioModel = RadioModel(), faults: FaultPlan = FaultPlan(),
        adjust: (inout VirtualDeviceConfiguration) -> Void = { _ in }
    ) throws -> World<ProfileWire> {
        try World(release, running: old, radio: radio, faults: faults, adjust: adjust)
    }

    /// Pushes in a world without faults.
    func run(
        radio: RadioModel = RadioModel(), faults: FaultPlan = FaultPlan(),
        adjust: (inout VirtualDeviceConfiguration) -> Void = { _ in }
    ) throws -> (run: Run, world: World<ProfileWire>) {
        let world = try world(radio: radio, faults: faults, adjust: adjust)
        return (try world.run([push()], encoders: [encoder])[0], world)
    }
}
