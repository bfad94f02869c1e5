package import OTAFleet
package import OTAGateway
package import OTAUpdate
internal import Synchronization

/// Connects a push of OTAClient with a gateway. It converts the progress of the push. It discards the interrupts that arrive while the push
/// is in the phases `apply`, `restart` and `confirm`.
package enum PushBridge {
    /// - Parameter push: performs the push. Its arguments are the interrupts that were not discarded, and a closure to which `push` reports
    ///   its progress.
    package static func run(
        _ interrupts: AsyncStream<Void>, _ report: @escaping @Sendable (PushStep) -> Void,
        push: (AsyncStream<Void>, @escaping @Sendable (UpdateProgress) -> Void) async -> PushEnd
    ) async -> PushEnd {
        let (accepted, feed) = AsyncStream.makeStream(of: Void.self)
        let phase = TrialPhase()
        return await withTaskGroup(of: Void.self) { group in
            group.addTask {
                // When the push has begun to mark the image for boot, an interrupt would only prevent the confirmation of the image.
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

/// Records whether a push is in the phase `trial` of a gateway: `apply`, `restart` or `confirm`.
private final class TrialPhase: Sendable {
    private let value = Atomic(false)

    var isTrial: Bool { value.load(ordering: .relaxed) }

    /// Records the phase of the push, and returns its progress for the gateway; nil if the gateway does not need this progress.
    func step(_ progress: UpdateProgress) -> PushStep? {
        switch progress {
        case .phase(.preflight): return PushStep(.connect)
        case .phase(.transfer), .phase(.verify):
            value.store(false, ordering: .relaxed)
            return PushStep(.transfer)
        case .phase(.apply), .phase(.restart), .phase(.confirm):
            value.store(true, ordering: .relaxed)
            return PushStep(.trial)
        case .transferred(let offset, let total, let sent):
            return PushStep(.transfer, offset: offset, total: total, sent: sent)
        default: return nil
        }
    }
}
