import OTAFirmware
import OTAUpdate

/// The recognition of a restarted device with a new address.
///
/// Info has no serial number. So only the trial identifies the device: the push has put this image on trial, and another device of the same
/// product normally does not run it on trial. After a permanent APPLY there is no trial, and the device is not recognized.
extension ProfileConversation {
    package var recognizesCandidates: Bool {
        guard let push, push.options.ending != .permanent else { return false }
        return switch push.apply {
        case .unanswered, .answered: true
        case .none, .asked: false
        }
    }

    /// Accepts or rejects the candidate of the link by its status.
    ///
    /// - Returns: true if the candidate is the device, or if the link is not to a candidate.
    mutating func isDevice(_ snapshot: DeviceSnapshot) -> Bool {
        guard shared.isCandidate else { return true }
        if let difference = difference(of: snapshot) {
            reject(difference)
            return false
        }
        acceptCandidate()
        return true
    }

    /// Returns the difference between a candidate and the device; nil: the candidate is the device.
    private func difference(of candidate: DeviceSnapshot) -> String? {
        guard let push, let before = push.previous ?? first else { return "is unknown" }
        let info = candidate.info
        if info.product != before.info.product { return "is the product \(info.product)" }
        if info.hardware != before.info.hardware { return "has the hardware revision \(info.hardware)" }
        guard candidate.state == .trial else { return "runs version \(candidate.version), which is not on trial" }
        guard push.preflight.runs(on: candidate) else {
            return "has another image on trial, version \(candidate.version)"
        }
        // During a trial, a device reports the security counter of its old image.
        if info.securityCounter != before.info.securityCounter {
            return "has the security counter \(info.securityCounter)"
        }
        if info.running == nil, before.info.running != nil { return "does not report the digest of its image" }
        return nil
    }
}
