public import OTAFirmware

/// The part of the job in a device's record that an operator has signed.
///
/// Gateways write the records of devices without a signature. A name or a time in such a record must not outrank a rollout that an operator
/// has signed: otherwise one record of a stolen gateway with the year 9999 excludes its device from all rollouts.
public enum SignedJob: Sendable, Hashable {
    /// An operator has signed the rollout of the job. The job counts with this time, and its release has this version; nil if the release is
    /// not known.
    case signed(created: Timestamp, version: SemanticVersion?)
    /// The record counts as it is. It names no rollout; or its job is not from the future, and this process does not accept the rollout of
    /// this name, for example because another operator has signed it, or because the store has lost it since this machine accepted it.
    case unchecked
    /// No rollout of this name for the product of the device is in the store. The job does not count.
    case unsigned
}

extension DeviceRecord {
    /// Returns the record as it counts for a decision: its job is bounded by the signed rollout of the job.
    ///
    /// - Parameter heard: the version of a record whose job does not count; nil: not known. A gateway passes the version that it has read from
    ///   the device. A controller passes nil, because the writer of the job has also written the version.
    public func bounded(by job: SignedJob, heard: SemanticVersion? = nil) -> DeviceRecord {
        var next = self
        switch job {
        case .unchecked: break
        case .signed(let created, let signedVersion):
            next.rolloutCreated = created
            // A gateway writes the version of the release when it finishes an update.
            if state == .done { next.version = signedVersion ?? version }
        case .unsigned:
            next.forgetJob()
            next.version = heard
        }
        return next
    }
}
