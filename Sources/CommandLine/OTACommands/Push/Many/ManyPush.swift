import OTAClient
import OTASigning
import OTAUpdate

/// Performs a push to several devices.
struct ManyPush {
    let update: VerifiedUpdate
    let options: UpdateOptions
    let targets: PushTargets
    /// The options that no target determines, such as the bases of deltas.
    let client: Updater.Options
    let console: Console
    /// The user's arguments. `Invocation.options` also contains the options that select the devices.
    let invocation: Invocation
    /// The user's arguments for a push to the devices that this push does not update; nil if no file has the result of this push.
    let retry: Invocation?
    /// Returns the user's arguments for a push to one of the devices.
    let single: @Sendable (ManySessions.Device) -> Invocation

    /// If a push has at least this number of devices, one device is updated before another device receives the image. This number has no
    /// effect in a dry run or with `--first`.
    private static let severalDevices = 4

    func run(_ given: [ManySessions.Device]) async throws -> ManyPushAnswer {
        let begun = ContinuousClock.now
        var policy = PushQueue.Policy()
        policy.atOnce = targets.order.atOnce.number
        policy.first = options.isDryRun ? 0 : targets.order.first ?? (given.count >= Self.severalDevices ? 1 : 0)
        policy.keepsGoing = targets.order.keepGoing
        let sessions = ManySessions(
            task: .push(update, options), targets: targets.devices, policy: policy, end: { PushQueue.End($0) },
            console: console, single: single, options: client)
        let outcomes = try await sessions.run(given) { answer($0, $1).end }
        return ManyPushAnswer(
            update, outcomes.map(entry), seconds: begun.duration(to: .now).seconds, invocation, retry: retry,
            interrupted: Interrupts.exitStatus)
    }

    private func answer(_ result: UpdateResult, _ device: ManySessions.Device) -> PushAnswer {
        PushAnswer(update, result, single(device), isUpload: options.ending == .uploadOnly)
    }

    private func entry(_ outcome: ManySessions.Outcome) -> ManyPushAnswer.Entry {
        var entry = ManyPushAnswer.Entry(outcome.device.address.text)
        (entry.adapter, entry.seconds, entry.warnings) = (outcome.adapter, outcome.seconds, outcome.warnings)
        switch outcome.result {
        case .success(let result): entry.answer = answer(result, outcome.device)
        case .failure(let failure): entry.failure = failure
        case nil: break
        }
        return entry
    }
}
