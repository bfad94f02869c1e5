/// The protocol of a session.
public enum UpdateProtocol: String, Encodable, Sendable, CaseIterable {
    /// The GATT OTA profile (docs/ota-profile.md).
    case ota
    /// SMP, the protocol of MCUmgr (docs/smp.md).
    case smp
}

/// The task of a session.
///
/// A push needs a verified update. Its type depends on the protocol, and only the verifier can create a value of it: a `VerifiedBundle`
/// for the GATT OTA profile, verified images for SMP. So no conversation can push unverified bytes.
public enum UpdateTask<Update: Sendable>: Sendable {
    case push(Update, UpdateOptions)
    /// Reports the device's status: the running image, the other images, and the offset of a partial upload.
    case status
    /// Makes the image on trial permanent.
    case confirm
    /// Discards a partial upload, or ends a trial and rolls back.
    case discard
    /// Makes the device blink for this number of seconds, so that the user can find it. 0 stops it. Not supported by SMP.
    case identify(seconds: UInt8)

    /// True for a push that ends after the preflight.
    package var isDryRun: Bool { if case .push(_, let options) = self { options.isDryRun } else { false } }

    /// Returns the same task with an update of another type.
    ///
    /// - Parameter convert: converts the update of a push.
    package func with<Other>(
        _ convert: (Update) throws(UpdateError) -> Other
    ) throws(UpdateError) -> UpdateTask<Other> {
        switch self {
        case .push(let update, let options): .push(try convert(update), options)
        case .status: .status
        case .confirm: .confirm
        case .discard: .discard
        case .identify(let seconds): .identify(seconds: seconds)
        }
    }
}

/// The options of a push.
public struct UpdateOptions: Sendable, Equatable {
    /// The step with which a push ends.
    public enum Ending: Sendable, Equatable {
        /// The device starts the image on trial. When the image runs, the session confirms it.
        case confirm
        /// The device starts the image on trial. Another run confirms it.
        case trial
        /// The image is marked as permanent before its first boot, without a trial.
        case permanent
        /// The image is uploaded and not marked for boot. Not supported by the GATT OTA profile.
        case uploadOnly
    }
    /// How a push handles a partial upload of an earlier run. It never continues a partial upload of another bundle or image, because
    /// the device stores the SHA-256 of the upload and compares it.
    public enum Resume: Sendable, Equatable {
        /// Continues a partial upload of the same bundle or image. Otherwise starts at 0.
        case automatic
        /// Acts as `automatic`, and reports `nothingToResume` if the transfer starts at 0.
        case expected
        /// Starts at 0. The device discards a partial upload.
        case never
    }
    public var resume: Resume
    public var ending: Ending
    /// Refuses a version lower than the running one. If false, the session reports `UpdateProgress.downgrade`.
    public var refusesDowngrade: Bool
    /// Pushes a bundle even if SMP cannot check all of its fields against the device. The GATT OTA profile checks all fields.
    public var acceptsUncheckedTarget: Bool
    /// Ends the push after the preflight, before the first change on the device. The outcome is `UpdateReport.Outcome.wouldUpdate`, or
    /// the outcome of a push that changes nothing, such as `alreadyRunning`. The other options have the same effect on the preflight as
    /// in a push.
    ///
    /// A dry run does not pair with a Bluetooth device. The device itself can still refuse the update later, for example by its policy.
    public var isDryRun: Bool

    public init(
        resume: Resume = .automatic, ending: Ending = .confirm, refusesDowngrade: Bool = false,
        acceptsUncheckedTarget: Bool = false, isDryRun: Bool = false
    ) {
        self.resume = resume
        self.ending = ending
        self.refusesDowngrade = refusesDowngrade
        self.acceptsUncheckedTarget = acceptsUncheckedTarget
        self.isDryRun = isDryRun
    }
}
