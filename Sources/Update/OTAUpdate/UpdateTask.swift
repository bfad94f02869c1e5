public import OTAFirmware

/// An update protocol. The values are in the folders of the protocols; `Protocols.all` of OTAClient lists them.
public struct UpdateProtocol: RawRepresentable, Hashable, Encodable, Sendable {
    /// The name in the option `--protocol` and in JSON, such as `smp`.
    public let rawValue: String
    /// The name of the protocol in texts for the user.
    public let title: String

    /// Creates a value of a protocol that has no other title. Two values with the same name are equal.
    public init(rawValue: String) { self.init(rawValue, title: rawValue) }

    package init(_ name: String, title: String) {
        rawValue = name
        self.title = title
    }

    public static func == (left: UpdateProtocol, right: UpdateProtocol) -> Bool { left.rawValue == right.rawValue }
    public func hash(into hasher: inout Hasher) { hasher.combine(rawValue) }
    public func encode(to encoder: any Encoder) throws { try rawValue.encode(to: encoder) }
}

/// The task of a session.
///
/// `Update` is the type of the verified update that a push sends: a `VerifiedBundle` for the GATT OTA profile, verified images for SMP.
/// Only the verifier can create a value of these types. So no conversation can push unverified bytes.
public enum UpdateTask<Update: Sendable>: Sendable {
    case push(Update, UpdateOptions)
    /// Reports the device's status: the running image, the other images, and the offset of a partial upload.
    case status
    /// Makes the image on trial permanent.
    case confirm
    /// Discards a partial upload, or ends a trial and rolls back. SMP does not report a partial upload, so over SMP the task erases the
    /// slot without the running image. If this slot has a complete image, the task fails with `slotHoldsImage`, unless `erasesImage` is
    /// true.
    case discard(erasesImage: Bool = false)
    /// Restarts the device. The task ends when the device has accepted the request. Only SMP supports this task.
    case restart
    /// Makes the device blink for this number of seconds, so that the user can find the device. 0 stops the blinking. SMP does not support
    /// this task.
    case identify(seconds: UInt8)

    /// True for a push with `UpdateOptions.isDryRun`. Such a push ends after the preflight.
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
        case .discard(let erasesImage): .discard(erasesImage: erasesImage)
        case .restart: .restart
        case .identify(let seconds): .identify(seconds: seconds)
        }
    }
}

/// The options of a push.
public struct UpdateOptions: Sendable, Equatable {
    /// The steps of a push after the upload.
    public enum Ending: Sendable, Equatable {
        /// The device boots the image on trial. When the image runs, the session confirms it.
        case confirm
        /// The device boots the image on trial, and the push ends. The user must confirm the image with another command before the trial
        /// ends.
        case trial
        /// The device boots the image without a trial. The image is permanent from its first boot on.
        case permanent
        /// The push ends after the upload, and the image is not marked for boot. The GATT OTA profile does not support this.
        case uploadOnly
    }
    /// The treatment of a partial upload that an earlier run left on the device.
    ///
    /// A push never continues a partial upload of another bundle or image. To recognize a partial upload, the device compares the SHA-256
    /// of the manifest (GATT OTA profile) or of the image (SMP).
    public enum Resume: Sendable, Equatable {
        /// Continues a partial upload of the same bundle or image. If the device has no such partial upload, starts at 0.
        case automatic
        /// Acts as `automatic`, and reports `nothingToResume` if the transfer starts at 0.
        case expected
        /// Starts at 0. The device discards its partial upload.
        case never
    }
    public var resume: Resume
    public var ending: Ending
    /// True if the session refuses a version lower than the running version. If false, the session only reports
    /// `UpdateProgress.downgrade`.
    public var refusesDowngrade: Bool
    /// True if a push over SMP continues even if SMP cannot check all fields of the bundle against the device, for example the hardware
    /// revision. The GATT OTA profile checks all fields.
    public var acceptsUncheckedTarget: Bool
    /// True for a dry run: the push ends after the preflight, before the first change on the device.
    ///
    /// The outcome is `UpdateReport.Outcome.wouldUpdate`. If a push would change nothing, a dry run has the same outcome as the push, for
    /// example `alreadyRunning`.
    ///
    /// A dry run does not pair with a Bluetooth device. The device can still refuse the real push, for example because of its policy.
    public var isDryRun: Bool
    /// True for a push that only ends a trial: it confirms the image if the device runs it on trial. If the device runs another image, the
    /// push ends with `UpdateError.Code.notInTrial` before the first change on the device.
    public var onlyConfirms: Bool
    /// True if the image is sent plain, even if the device can decode an encoded image.
    ///
    /// Only the GATT OTA profile has encoded images.
    public var isPlain: Bool
    /// The possible running images of the device. If the device accepts one of them as the base, the session sends the delta from this
    /// base.
    ///
    /// The session offers at most three bases. If the device accepts none of them, the session sends the compressed image.
    public var bases: [BaseImage]
    /// The images that an earlier push has installed on this device: the SHA-256 of the file, by image number. A push does not send them
    /// again if the device never lists their image number, and the other images of the push run. Only SMP uses this value.
    package var deliveredImages: [Int: [UInt8]] = [:]

    /// Checks that a version that is lower than the running version may be installed.
    ///
    /// - Parameters:
    ///   - context: the description of the versions.
    ///   - policy: the path of the policy of the trusted keys that refuses it; nil: no policy refuses it.
    /// - Throws: `downgrade`.
    package func checkDowngrade(_ context: String, _ policy: String?) throws(UpdateError) {
        if let policy {
            throw UpdateError(.downgrade, "\(context), and \(policy) refuses it", remedy: .policy(path: policy))
        }
        if refusesDowngrade { throw UpdateError(.downgrade, context) }
    }

    public init(
        resume: Resume = .automatic, ending: Ending = .confirm, refusesDowngrade: Bool = false,
        acceptsUncheckedTarget: Bool = false, isDryRun: Bool = false, onlyConfirms: Bool = false,
        isPlain: Bool = false, bases: [BaseImage] = []
    ) {
        self.resume = resume
        self.ending = ending
        self.refusesDowngrade = refusesDowngrade
        self.acceptsUncheckedTarget = acceptsUncheckedTarget
        self.isDryRun = isDryRun
        self.onlyConfirms = onlyConfirms
        self.isPlain = isPlain
        self.bases = bases
    }
}
