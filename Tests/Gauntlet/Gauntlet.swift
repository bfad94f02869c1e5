import OTAProfile
import OTASimulator
package import OTAUpdate

/// Whole updates in a world that a seed has made: the same seed gives the same course, to the byte and the nanosecond.
package struct Gauntlet: Sendable {
    /// No push may take longer, however little gets through: a client gives up by itself.
    private static let longestPush = Duration.seconds(6 * 3600)
    /// Clients that a world is given after all faults are over. One must do; a fault that was still planned may cost it.
    private static let clientsAfterwards = 4

    /// Two releases, of which the second has the higher security counter: a device that runs it for good refuses the first.
    private let pairs: [[Release]]

    /// Images of 16 to 64 KiB.
    package init() throws {
        let sizes = [16_384, 20_000, 30_001, 40_960, 49_999, 65_536]
        pairs = try sizes.indices.map { index in
            try [
                Release(bytes: sizes[index], version: "1.1.0", counter: 2, keySeed: 1),
                Release(bytes: sizes[(index + 3) % sizes.count] - 7, version: "1.2.0", counter: 3, keySeed: 1),
            ]
        }
    }

    /// How the line of a transcript begins that tells what must not be.
    package static let offenceMark = "!! "

    /// What to type to see a world again.
    package static func replay(_ seed: UInt64) -> String {
        "scripts/gauntlet --worlds 1 --first-seed \(seed) --transcript"
    }

    /// What became of a world.
    package struct Ending: Sendable {
        package var seed: UInt64
        package var offences: [String]
        /// How the last client with faults around it ended.
        package var isConfirmed: Bool
        package var error: UpdateError.Code?
        package var restarts: Int
        package var links: Int
        package var resentBytes: Int
        package var transcriptHash: UInt64
        package var transcript: [String]
    }

    package func play(seed: UInt64, keepsTranscript: Bool = false) throws -> Ending {
        let fate = Fate(seed: seed)
        let releases = pairs[Int(seed % UInt64(pairs.count))]
        let world = try world(fate, releases, seed)
        let watcher = Watcher(
            world.device, images: [world.factoryImage] + releases.map(\.image), keepsTranscript: keepsTranscript)
        watcher.note("\(fate)")
        let clients = fate.clients.map { client in
            Client(
                .push(releases[client.release].bundle, PushOptions(resume: client.resumes)), death: client.death,
                clockJump: client.clockJump, pause: client.pause)
        }
        let runs = try world.run(clients, seed: seed, through: fate.faults) { watcher.saw($0, $1, $2, $3) }
        for (client, run) in zip(fate.clients, runs) { judge(run, releases[client.release], fate, world, watcher) }
        let last = runs[runs.count - 1]
        // It may just be restarting.
        try world.wait(.seconds(2))
        if let client = fate.clients.last, last.report != nil {
            watcher.require(world.runsForGood(releases[client.release].image), "it says confirmed, and is wrong")
        }
        try heal(world, releases[1], seed, watcher)
        let statistics = world.transport.statistics
        return Ending(
            seed: seed, offences: watcher.offences, isConfirmed: last.report != nil, error: last.error,
            restarts: world.device.restartCount, links: statistics.links,
            resentBytes: runs.reduce(0) { $0 + ($1.report?.transfer?.resentBytes ?? 0) },
            transcriptHash: statistics.transcript, transcript: watcher.transcript)
    }

    private func world(_ fate: Fate, _ releases: [Release], _ seed: UInt64) throws -> World {
        let largest = releases.map(\.image.count).max() ?? 0
        return try World(releases[0], radio: fate.radio, faults: fate.plan, seed: seed, age: fate.age) {
            $0.window = fate.window
            $0.layout = FlashLayout(slotSize: largest.roundedUp(to: 4096), writeUnit: fate.writeUnit)
        }
    }

    /// What a client may end with, and how long it may take, and how much it may send again.
    private func judge(_ run: World.Run, _ release: Release, _ fate: Fate, _ world: World, _ watcher: Watcher) {
        watcher.require(run.duration <= Self.longestPush, "a push took \(run.duration)")
        switch run.outcome {
        case .failure(let error):
            watcher.require(
                Self.excuses(fate).contains(error.code), "it ended with \(error.code.rawValue): \(error.context)")
        case .success(let report):
            watcher.require([.confirmed, .alreadyRunning].contains(report.outcome), "it ended with \(report.outcome)")
            guard let transfer = report.transfer, !fate.faults.deceives, fate.plan.wornPrograms.isEmpty else { break }
            let window = fate.window * max(transfer.chunkSize, 20) + 2 * world.device.configuration.layout.pageSize
            let breaks = transfer.disconnects + transfer.gaps + world.device.restartCount + 1
            watcher.require(
                transfer.resentBytes <= breaks * window,
                "\(transfer.resentBytes) bytes were sent again in \(breaks) breaks")
        }
    }

    /// How a push may fail. What follows from the link alone is always one; the others need a reason in the fate.
    private static func excuses(_ fate: Fate) -> Set<UpdateError.Code> {
        var codes: Set<UpdateError.Code> = [.linkLost, .noAnswer, .wentBack, .didNotReturn, .interrupted, .deviceBusy]
        // Another client's release may be on trial, or have raised the counter.
        if fate.clients.count > 1 { codes.formUnion([.inTrial, .protocolViolation, .counterTooLow]) }
        if !fate.plan.wornPrograms.isEmpty { codes.formUnion([.digestDiffers, .protocolViolation]) }
        if fate.faults.deceives { codes.formUnion([.protocolViolation, .digestDiffers]) }
        return codes
    }

    /// The faults are over, and time has passed: now an update must succeed.
    private func heal(_ world: World, _ release: Release, _ seed: UInt64, _ watcher: Watcher) throws {
        let healthy = try world.healed(seed: seed)
        try healthy.wait(.seconds(200))
        watcher.look()
        let client = Client(.push(release.bundle, PushOptions(resume: true)), pause: .seconds(100))
        for _ in 0..<Self.clientsAfterwards {
            let run = try healthy.run([client], seed: seed) { watcher.saw(100, $1, $2, $3) }[0]
            watcher.look()
            guard run.report == nil else { break }
        }
        watcher.require(healthy.runsForGood(release.image), "it cannot be updated any more")
        watcher.lookAtRunningImage()
    }
}
