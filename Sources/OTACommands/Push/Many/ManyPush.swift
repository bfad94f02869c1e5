import BlueZ
import Glibc
import OTABlueZ
import OTAClient
import OTASigning
import OTAUpdate

/// Performs a push to several devices.
struct ManyPush {
    let update: VerifiedUpdate
    let options: UpdateOptions
    let targets: PushTargets
    let trust: TrustStore
    /// The images that the devices may run; nil: the push needs none.
    let bases: BaseImages?
    let console: Console
    /// The user's arguments. `Invocation.options` also contains the options that select the devices.
    let invocation: Invocation
    /// Returns the user's arguments for a push to one of the devices.
    let single: @Sendable (String) -> Invocation

    /// If a push has at least this number of devices, one device is updated before the others start. This number has no effect in a dry run
    /// or with `--first`.
    private static let severalDevices = 4

    /// - Parameter rssi: the signal strength of each device in dBm; nil: unknown.
    func run(_ addresses: [DeviceAddress], rssi: [Int?]? = nil) async throws -> ManyPushAnswer {
        let links = LinkGuard(console.logger)
        defer { links.stop() }
        let client = SharedBlueZClient(logger: console.logger, links: links)
        let hasBluetooth = addresses.contains(where: \.isBluetooth)
        let lock = hasBluetooth ? try await AdapterLock.take(targets.session.radio.adapter, of: client) : nil
        var shared = Updater.Options()
        shared.updateProtocol = targets.session.updateProtocol.forced
        shared.adapter = lock?.adapter ?? targets.session.radio.adapter
        // Several devices cannot prompt on one terminal at the same time. So without `--passkey`, a pairing that needs a passkey is
        // refused.
        shared.pairing = targets.session.radio.passkeyNumber.map { .passkey($0) } ?? .unattended
        shared.logger = console.logger
        shared.links = links
        shared.bluetooth = client
        shared.holdsAdapter = lock != nil
        shared.keysOfNewDevice = trust
        shared.bases = bases

        let begun = ContinuousClock.now
        let outcomes = await push(addresses, queue(addresses, rssi), shared)
        withExtendedLifetime(lock) {}
        let entries = zip(addresses, outcomes).map { entry($0.text, $1) }
        let signal = Interrupts.signal
        return ManyPushAnswer(
            update, entries, seconds: begun.duration(to: .now).seconds, invocation,
            interrupted: signal.map { $0 == SIGTERM ? .terminated : .interrupted })
    }

    private func queue(_ addresses: [DeviceAddress], _ rssi: [Int?]?) -> PushQueue {
        var policy = PushQueue.Policy()
        policy.atOnce = targets.order.atOnce.number
        policy.first = options.isDryRun ? 0 : targets.order.first ?? (addresses.count >= Self.severalDevices ? 1 : 0)
        policy.keepsGoing = targets.order.keepGoing
        let entries = addresses.enumerated().map { index, address in
            PushQueue.Entry(
                lane: PushQueue.Lane(of: address, adapter: targets.session.radio.adapter), rssi: rssi?[index])
        }
        return PushQueue(entries, policy)
    }

    private func push(
        _ addresses: [DeviceAddress], _ queue: PushQueue, _ shared: Updater.Options
    ) async -> [PushPool<UpdateResult>.Outcome] {
        let limit = targets.session.timeout?.duration
        let begun = ContinuousClock.now
        let display = ManyProgress(console, addresses.map(\.text))
        defer { display.finish() }
        let (update, options, console) = (update, options, console)
        let pool = PushPool<UpdateResult>(end: { PushQueue.End($0) }) { index, interrupts, admits, report in
            var own = shared
            // The limit is for the whole command, so a later push has less time.
            own.timeLimit = limit.map { max($0 - begun.duration(to: .now), .milliseconds(1)) }
            own.admits = admits
            own.note = { console.of(addresses[index].text).note($0) }
            return try await Updater(addresses[index], own)
                .perform(.push(update, options), interrupts: interrupts, report: report)
        }
        return await Interrupts.during(onFirst: Wiring(console: console, invocation: invocation).stopping) { stops in
            await pool.run(
                queue, count: addresses.count, interrupts: stops, clock: ContinuousClock(), limit: limit
            ) { event in
                switch event {
                case .started: break
                case .progress(let index, let progress, let time): display.show(progress, at: time, of: index)
                case .postponed(let index, let error):
                    let failure = Failure(error, in: single(addresses[index].text))
                    display.set("Waiting", of: index)
                    display.note("\(addresses[index].text): \(failure.message); trying again later")
                case .heldBack(let index): display.set("Waiting", of: index)
                case .ended(let index): display.set("Ended", of: index)
                case .limited(_, let number):
                    display.note(
                        "a connection failed: from now on, at most \(number) devices are updated at the same time")
                case .halted(let index):
                    guard !targets.order.keepGoing else { return }
                    display.note(
                        "\(addresses[index].text) does not run the new image: no further device is started (--keep-going)"
                    )
                }
            }
        }
    }

    private func entry(_ given: String, _ outcome: PushPool<UpdateResult>.Outcome) -> ManyPushAnswer.Entry {
        let invocation = single(given)
        switch outcome {
        case .notStarted: return ManyPushAnswer.Entry(given: given, answer: nil, failure: nil, seconds: nil)
        case .ended(.success(let result), let duration):
            let answer = PushAnswer(update, result, invocation, isUpload: options.ending == .uploadOnly)
            return ManyPushAnswer.Entry(given: given, answer: answer, failure: nil, seconds: duration.seconds)
        case .ended(.failure(let error), let duration):
            var failure = Failure(error, in: invocation)
            if failure.exit == .interrupted, Interrupts.signal == SIGTERM { failure.exit = .terminated }
            return ManyPushAnswer.Entry(given: given, answer: nil, failure: failure, seconds: duration.seconds)
        }
    }
}
