import DescriptorIO
package import OTAFleet
package import OTAGateway
package import OTAUpdate

/// Connects a push of OTAClient with a gateway. It converts the stage and the offset of the push. It discards the interrupts that arrive from
/// the stage `marked` on.
package enum PushBridge {
    /// - Parameter push: performs the push. Its arguments are the interrupts that were not discarded, the gate of the push, and a closure to
    ///   which `push` reports its progress.
    package static func run(
        _ interrupts: AsyncStream<Void>, _ report: @escaping @Sendable (PushStep) -> Void,
        push: (AsyncStream<Void>, @escaping StageGate, @escaping @Sendable (UpdateProgress) -> Void) async -> PushEnd
    ) async -> PushEnd {
        let (accepted, feed) = AsyncStream.makeStream(of: Void.self)
        let stage = Guarded(UpdateStage.searching)
        return await withTaskGroup(of: Void.self) { group in
            group.addTask {
                // When the push has begun to mark the image for boot, an interrupt would only prevent the confirmation of the image.
                for await _ in interrupts where stage.with({ $0 < .marked }) { feed.yield() }
            }
            let end = await push(accepted) { entered, _ in
                stage.with { $0 = entered }
                if entered > .searching { report(PushStep(DeviceRecord.Phase(entered))) }
                return true
            } _: { progress in
                guard case .transferred(let offset, let total, let sent) = progress else { return }
                report(PushStep(.transfer, offset: offset, total: total, sent: sent))
            }
            group.cancelAll()
            return end
        }
    }
}

extension DeviceRecord.Phase {
    fileprivate init(_ stage: UpdateStage) {
        switch stage {
        case .searching, .asking: self = .connect
        case .sending: self = .transfer
        case .marked, .restarting, .confirming: self = .trial
        }
    }
}
