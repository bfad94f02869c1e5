package import OTAFleet
package import OTAGateway
package import OTAUpdate
internal import Synchronization

/// Connects a push of OTAClient with a gateway: translates its progress, and drops interrupts from the mark for boot on.
package enum PushBridge {
    /// - Parameter push: performs the push. It gets the interrupts that count, and a closure for its progress.
    package static func run(
        _ interrupts: AsyncStream<Void>, _ report: @escaping @Sendable (PushStep) -> Void,
        push: (AsyncStream<Void>, @escaping @Sendable (UpdateProgress) -> Void) async -> PushEnd
    ) async -> PushEnd {
        let (accepted, feed) = AsyncStream.makeStream(of: Void.self)
        let phase = TrialPhase()
        return await withTaskGroup(of: Void.self) { group in
            group.addTask {
                // From the mark for boot on, an interrupt would only leave the image unconfirmed.
                for await _ in interrupts where !phase.isTrial { feed.yield() }
            }
            let end = await push(accepted) { progress in
                if let step = phase.step(progress) { report(step) }
            }
            group.cancelAll()
            return end
        }
    }
}

/// Whether a push has reached the trial.
private final class TrialPhase: Sendable {
    private let value = Atomic(false)

    var isTrial: Bool { value.load(ordering: .relaxed) }

    /// Returns the progress for the gateway; nil if it does not concern the gateway.
    func step(_ progress: UpdateProgress) -> PushStep? {
        switch progress {
        case .phase(.transfer), .phase(.verify):
            value.store(false, ordering: .relaxed)
            return PushStep(.transfer)
        case .phase(.apply), .phase(.restart), .phase(.confirm):
            value.store(true, ordering: .relaxed)
            return PushStep(.trial)
        case .transferred(let offset, let total, _): return PushStep(.transfer, offset: offset, total: total)
        default: return nil
        }
    }
}
