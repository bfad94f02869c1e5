import OTASigning
import OTASimulator
import OTAUpdate

/// A world's way through the gauntlet: its clients, what is looked at meanwhile, and an update when all faults are over.
struct GauntletRun<Kind: GauntletWire> {
    /// No push may take longer, however little gets through: a client gives up by itself.
    private let longestPush = Duration.seconds(6 * 3600)
    /// Clients that push after all faults are over. One must be enough. The state that earlier clients left can cost some, and each power
    /// cut that is still due can cost one more.
    private var clientsAfterwards: Int { 4 + fate.plan.powerCuts.count }

    private let fate: Fate
    private let seed: UInt64
    private let releases: [Kind.Image]
    private let world: World<Kind>
    private let watcher: Watcher

    init(_ fate: Fate, _ releases: [Kind.Image], seed: UInt64, keepsTranscript: Bool) throws {
        self.fate = fate
        self.seed = seed
        self.releases = releases
        world = try Kind.world(fate, releases, seed: seed)
        let device = world.device
        watcher = Watcher(
            device, images: [world.factoryImage] + releases.map(\.image), keepsTranscript: keepsTranscript
        ) { Kind.offence(in: device, releases, fate) }
        watcher.note("\(fate)")
        watcher.expectsCheckedMarks = Kind.checksMarks(fate, clients: fate.clients.count)
    }

    func run() throws -> Gauntlet.Ending {
        let clients = fate.clients.map { client in
            Client(
                Kind.push(releases[client.release], resumes: client.resumes), death: client.death,
                clockJump: client.clockJump, powerCut: client.powerCut, pause: client.pause)
        }
        let watcher = watcher
        let pushed = fate.clients.map { SHA256.digest(of: releases[$0.release].image) }
        let runs = try world.run(clients, seed: seed, through: fate.faults) {
            watcher.saw($0, pushing: pushed[$0], $1, $2, $3)
        }
        for run in runs { check(run) }
        let last = runs[runs.count - 1]
        // It may be restarting, and the core writes a record at each boot, so each power cut that is still due restarts it again.
        try world.wait(.seconds(2 * (1 + fate.plan.powerCuts.count)))
        if let client = fate.clients.last, last.report != nil {
            watcher.require(world.runsForGood(releases[client.release].image), "it says confirmed, and is wrong")
        }
        try requireUpdate(releases[1])
        let statistics = world.transport.statistics
        return Gauntlet.Ending(
            seed: seed, offences: watcher.offences, isConfirmed: last.report != nil, error: last.error,
            restarts: world.device.restartCount, links: statistics.links,
            resentBytes: runs.reduce(0) { $0 + ($1.report?.transfer?.resentBytes ?? 0) },
            transcriptHash: statistics.transcript, transcript: watcher.transcript)
    }

    /// What a client may end with, and how long it may take, and how much it may send again.
    private func check(_ run: Run) {
        watcher.require(run.duration <= longestPush, "a push took \(run.duration)")
        watcher.require(run.tally.events < MortalSession.mostEvents, "a push had no end")
        switch run.outcome {
        case .failure(let error):
            watcher.require(
                Kind.excuses(fate).contains(error.code), "it ended with \(error.code.rawValue): \(error.context)")
        case .success(let report):
            watcher.require([.confirmed, .alreadyRunning].contains(report.outcome), "it ended with \(report.outcome)")
            guard let transfer = report.transfer, let limit = Kind.resentLimit(transfer, fate, world) else { break }
            watcher.require(
                transfer.resentBytes <= limit, "\(transfer.resentBytes) bytes were sent again, and not \(limit) at most"
            )
        }
    }

    /// The faults are over, and time has passed: now an update must succeed.
    private func requireUpdate(_ release: Kind.Image) throws {
        let healthy = world.healed(seed: seed)
        try healthy.wait(.seconds(200))
        watcher.expectsCheckedMarks = Kind.checksMarks(fate, clients: fate.clients.count + 1)
        watcher.look()
        let client = Client(Kind.push(release, resumes: true), pause: .seconds(100))
        let (watcher, pushed) = (watcher, SHA256.digest(of: release.image))
        for _ in 0..<clientsAfterwards {
            let run = try healthy.run([client], seed: seed) { watcher.saw(100, pushing: pushed, $1, $2, $3) }[0]
            watcher.look()
            guard let error = run.error else { break }
            try Kind.clear(error, healthy, seed: seed)
        }
        watcher.require(healthy.runsForGood(release.image), "it cannot be updated any more")
        watcher.lookAtRunningImage()
    }
}
