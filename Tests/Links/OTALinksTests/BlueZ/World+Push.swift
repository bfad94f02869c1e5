import BlueZ
import FakeBlueZ
import OTAEngine
import OTALinks
import OTAProfile
import OTAUpdate

/// The progress reports of a runner. The runner writes them one after the other, and a test reads them after the update.
final class Diary: @unchecked Sendable {
    var reports: [UpdateProgress] = []
    var isDisturbed = false
    private let (losses, feed) = AsyncStream.makeStream(of: Void.self)

    func note(_ progress: UpdateProgress) {
        reports.append(progress)
        if case .linkLost = progress { feed.yield() }
    }

    /// Waits until the runner reports a lost link. May be called during the update, by one task.
    func waitForLinkLoss() async {
        for await _ in losses { return }
    }
}

extension World {
    func transport(
        _ address: String? = nil, pairing: PairingResponder = .unattended, limit: Duration = .seconds(10)
    ) throws -> BlueZTransport {
        guard let address = BLEAddress(address ?? self.address.description) else { throw TimeIsUp(what: "an address") }
        return BlueZTransport(
            address, services: [ProfileChannel.service], adapter: "hci0", pairing: pairing, bus: bus,
            limit: limit)
    }

    /// Runs a complete update.
    ///
    /// - Parameters:
    ///   - part: the received part of the image at which `disturbance` runs, from 0 to 1.
    ///   - disturbance: runs once during the transfer.
    func push(
        _ address: String? = nil, pairing: PairingResponder = .unattended, resume: Bool = false, at part: Double = 0.3,
        limit: Duration = .seconds(10), _ disturbance: (@Sendable (Diary) async throws -> Void)? = nil
    ) async throws -> (report: UpdateReport, diary: Diary) {
        let diary = Diary()
        let runner = UpdateRunner(clock: ContinuousClock(), encoder: nil) { progress, _ in
            diary.note(progress)
            guard let disturbance, !diary.isDisturbed, case .transferred(let offset, let total, _) = progress,
                Double(offset) >= part * Double(total)
            else { return }
            diary.isDisturbed = true
            Task { try await disturbance(diary) }
        }
        let report = try await runner.run(
            UpdateSession(
                try ProfileConversation(.push(release.bundle, UpdateOptions(resume: resume ? .expected : .never))),
                seed: 1),
            over: try transport(address, pairing: pairing, limit: limit), interrupts: AsyncStream<Void> { $0.finish() })
        return (report, diary)
    }
}
