import OTAFirmware
import OTAUpdate

/// The recognition of a restarted device with a new address.
///
/// The digest of the running image identifies the device, but only while the image is on trial: another device of the same product can have
/// the same image confirmed since an earlier update. So after an update without a trial, the device is not recognized.
extension SMPConversation {
    package var recognizesCandidates: Bool {
        guard let push, case .under = restart else { return false }
        return push.options.ending == .confirm || push.options.ending == .trial
    }

    /// Accepts or rejects the candidate of the link by its image list.
    ///
    /// - Returns: true if the candidate is the device, or if the link is not to a candidate.
    mutating func isDevice(_ list: SMPImageList) -> Bool {
        guard shared.isCandidate else { return true }
        guard let push, push.plan(list).runOnTrial,
            push.images.contains(where: { list.running($0.number)?.confirmed == false })
        else {
            reject(Self.difference(of: list.running(0)))
            return false
        }
        acceptCandidate()
        return true
    }

    private static func difference(of running: SMPImageList.Entry?) -> String {
        guard let running else { return "does not list its running image" }
        guard running.confirmed == false else { return "runs version \(running.version), which is not on trial" }
        return "has another image on trial, version \(running.version)"
    }
}
