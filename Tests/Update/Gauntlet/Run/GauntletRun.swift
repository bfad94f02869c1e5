import OTASigning
import OTASimulator
import OTAUpdate

/// Runs a world: its clients, the checks during each step, and an update after all faults are over.
struct GauntletRun<Kind: GauntletWire> {
    /// The longest time of a push. A client ends a push without progress by itself.
    private let longestPush = Duration.seconds(6 * 3600)
    /// The number of clients that may push after all faults are over.
    ///
    /// Normally one is enough. The state that earlier clients left can stop some. Each pending power cut can stop one more.
    private var clientsAfterwards: Int { 4 + fate.plan.powerCuts.count }

    private let fate: Fate
    private let seed: UInt64
    private let releases: [Kind.Image]
    private let encoded: EncodedReleases?
    private let world: World<Kind>
    private let watcher: Watcher

    /// - Parameter encoded: the device's first image and the bases of a world with encoded images.
    init(
        _ fate: Fate, _ releases: [Kind.Image], _ encoded: EncodedReleases? = nil, seed: UInt64, keepsTranscript: Bool
    ) throws {
        self.fate = fate
        self.encoded = encoded
        self.seed = seed
        self.releases = releases
        world = try Kind.world(fate, releases, encoded, seed: seed)
        let device = world.device
        watcher = Watcher(
            device, images: [world.factoryImage] + releases.map(\.image), keepsTranscript: keepsTranscript
        ) { Kind.offence(in: device, releases, fate) }
        watcher.note("\(fate)")
        watcher.expectsCheckedMarks = Kind.checksMarks(fate, clients: fate.clients.count)
        watcher.bootsOnlyPushedImages = fate.board.loader == nil
    }

    func run() throws -> Gauntlet.Ending {
        let clients = fate.clients.map { client in
            let push = Kind.push(
                releases[client.release], resumes: client.resumes, fate, client.encodes ? encoded : nil)
            return Client(
                push.task, death: client.death, clockJump: client.clockJump, powerCut: client.powerCut,
                pause: client.pause, encoder: push.encoder)
        }
        let watcher = watcher
        let pushed = fate.clients.map { SHA256.digest(of: releases[$0.release].image) }
        let runs = try world.run(clients, seed: seed, through: fate.faults) {
            watcher.saw($0, pushing: pushed[$0], $1, $2, $3)
        }
        for run in runs { check(run) }
        let last = runs[runs.count - 1]
        // The device may be restarting. The core writes a record at each boot, so each pending power cut restarts the device again.
        try world.wait(.seconds(2 * (1 + fate.plan.powerCuts.count)))
        if let client = fate.clients.last, last.report != nil {
            watcher.require(
                world.runsForGood(releases[client.release].image),
                "push reported success, but the device does not run the image permanently")
        }
        try requireUpdate(releases[1])
        let statistics = world.transport.statistics
        return Gauntlet.Ending(
            seed: seed, offences: watcher.offences, isConfirmed: last.report != nil, error: last.error,
            restarts: world.device.restartCount, links: statistics.links,
            resentBytes: runs.reduce(0) { $0 + ($1.report?.transfer?.resentBytes ?? 0) },
            transcriptHash: statistics.transcript, transcript: watcher.transcript)
    }

    /// Checks a client's result, its duration, and the number of bytes sent again.
    private func check(_ run: Run) {
        watcher.require(run.duration <= longestPush, "a push took \(run.duration), more than \(longestPush)")
        watcher.require(
            run.tally.events < MortalSession.mostEvents, "a push did not end within \(MortalSession.mostEvents) events")
        switch run.outcome {
        case .failure(let error):
            watcher.require(
                Kind.excuses(fate).contains(error.code),
                "a push failed with \(error.code.rawValue), unexpected in this world: \(error.context)")
        case .success(let report):
            watcher.require(
                [.confirmed, .alreadyRunning].contains(report.outcome)
                    || report.outcome == .returned && fate.board.loader != nil, "a push ended with \(report.outcome)")
            guard let transfer = report.transfer, let limit = Kind.resentLimit(transfer, fate, world) else { break }
            watcher.require(
                transfer.resentBytes <= limit, "\(transfer.resentBytes) bytes were sent again, more than \(limit)"
            )
        }
    }

    /// Requires that an update succeeds some time after the faults are over.
    private func requireUpdate(_ release: Kind.Image) throws {
        let healthy = world.healed(seed: seed)
        try healthy.wait(.seconds(200))
        watcher.expectsCheckedMarks = Kind.checksMarks(fate, clients: fate.clients.count + 1)
        watcher.look()
        let push = Kind.push(release, resumes: true, fate, encoded)
        let client = Client(push.task, pause: .seconds(100), encoder: push.encoder)
        let (watcher, pushed) = (watcher, SHA256.digest(of: release.image))
        for _ in 0..<clientsAfterwards {
            let reached = world.healed(seed: seed)
            let run = try reached.run([client], seed: seed) { watcher.saw(100, pushing: pushed, $1, $2, $3) }[0]
            watcher.look()
            guard let error = run.error else { break }
            try Kind.clear(error, reached, seed: seed)
        }
        watcher.require(healthy.runsForGood(release.image), "the device cannot be updated any more")
        watcher.lookAtRunningImage()
    }
}
