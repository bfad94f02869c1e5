import BlueZ
import FakeBlueZ
import OTABlueZ
import OTAEngine
import OTAProfile
import OTAUpdate

/// What the runner told, kept by whoever calls it, one after the other.
final class Diary: @unchecked Sendable {
    var reports: [UpdateProgress] = []
    var isDisturbed = false
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

    /// A whole update.
    ///
    /// - Parameter disturbance: what happens once, when this part of the image is there.
    func push(
        _ address: String? = nil, pairing: PairingResponder = .unattended, resume: Bool = false, at part: Double = 0.3,
        limit: Duration = .seconds(10), _ disturbance: (@Sendable () async throws -> Void)? = nil
    ) async throws -> (report: UpdateReport, diary: Diary) {
        let diary = Diary()
        let runner = UpdateRunner(clock: ContinuousClock()) { progress, _ in
            diary.reports.append(progress)
            guard let disturbance, !diary.isDisturbed, case .transferred(let offset, let total) = progress,
                Double(offset) >= part * Double(total)
            else { return }
            diary.isDisturbed = true
            Task { try await disturbance() }
        }
        let report = try await runner.run(
            UpdateSession(try ProfileConversation(.push(release.bundle, UpdateOptions(resume: resume))), seed: 1),
            over: try transport(address, pairing: pairing, limit: limit), interrupts: AsyncStream<Void> { $0.finish() })
        return (report, diary)
    }
}
