public import OTAFirmware

/// The error of a failed update. Two errors are equal if their codes are equal.
public struct UpdateError: Error, Sendable, Equatable {
    /// An error code. Scripts compare the codes, so a code never changes. `docs/errors.md` explains each code.
    public enum Code: String, Sendable, CaseIterable {
        // Errors of the link.
        case linkUnavailable = "link-unavailable"
        case noSuchDevice = "no-such-device"
        case deviceInUse = "device-in-use"
        case linkLost = "link-lost"
        case attributeRefused = "attribute-refused"
        case notPermitted = "not-permitted"
        case interrupted
        case noProgress = "no-progress"
        case timedOut = "timed-out"
        // Errors of the device: the device violates the protocol, does not support the protocol or the task, or fails.
        case unsupportedDevice = "unsupported-device"
        case protocolViolation = "protocol-violation"
        case noAnswer = "no-answer"
        case deviceBusy = "device-busy"
        case flashFailed = "flash-failed"
        case digestMismatch = "digest-mismatch"
        // Refusals, by the preflight of otaflash or by the device.
        case envelopeMalformed = "envelope-malformed"
        case criticalField = "critical-field"
        case untrustedByDevice = "untrusted-by-device"
        case wrongProduct = "wrong-product"
        case wrongHardware = "wrong-hardware"
        /// A field of the bundle cannot be compared with the device, because the protocol does not report the value.
        case targetUnchecked = "target-unchecked"
        case counterTooLow = "counter-too-low"
        case requiresNewer = "requires-newer"
        case wrongImageFormat = "wrong-image-format"
        case imageTooLarge = "image-too-large"
        /// The manifest and the signatures by the device's keys do not fit in the device's memory. Only the GATT OTA profile reports it.
        case envelopeTooLarge = "envelope-too-large"
        case batteryLow = "battery-low"
        case refusedByPolicy = "refused-by-policy"
        case downgrade
        case inTrial = "in-trial"
        case notInTrial = "not-in-trial"
        case noTrial = "no-trial"
        case trialAvailable = "trial-available"
        /// The slot that `UpdateTask.discard` would erase has a complete image. Only SMP reports this error.
        case slotHoldsImage = "slot-holds-image"
        // Errors after the restart.
        case rolledBack = "rolled-back"
        case didNotReturn = "did-not-return"
        /// The device has restarted after the upload, and does not run the image of the push. It has no other image.
        case imageNotRunning = "image-not-running"

        package var kind: Kind {
            switch self {
            case .linkUnavailable: .noConnection
            case .noSuchDevice, .linkLost, .noAnswer: .unreachable
            case .deviceInUse, .deviceBusy, .noProgress, .timedOut: .postponed
            case .interrupted: .interrupted
            case .attributeRefused: .staleTable
            case .protocolViolation, .flashFailed, .digestMismatch: .faulty
            case .unsupportedDevice: .unsupported
            case .envelopeMalformed, .criticalField, .untrustedByDevice, .wrongProduct, .wrongHardware,
                .targetUnchecked, .counterTooLow, .requiresNewer, .wrongImageFormat, .imageTooLarge, .envelopeTooLarge,
                .refusedByPolicy, .downgrade:
                .refused
            case .notPermitted, .batteryLow, .inTrial, .notInTrial, .noTrial, .trialAvailable, .slotHoldsImage:
                .wrongState
            case .rolledBack, .didNotReturn, .imageNotRunning: .imageLost
            }
        }
    }
    /// What an error means for the device and for another attempt. The exit status of a command, the order of several pushes and the count of a
    /// rollout follow from it.
    package enum Kind: Sendable {
        /// This computer cannot connect to any device.
        case noConnection
        /// The device was not found, or does not answer.
        case unreachable
        /// The device is in use or busy, or the attempt took too long.
        case postponed
        /// The caller stopped the update.
        case interrupted
        /// The device refused an attribute, most often because bluetoothd has the attribute table of an older firmware.
        case staleTable
        /// The device violates its protocol, or its flash fails. The image can be the cause.
        case faulty
        /// The device does not offer the protocol or the task.
        case unsupported
        /// The update does not suit the device.
        case refused
        /// The device does not permit the task in its present state.
        case wrongState
        /// The device has restarted, and does not run the new image. The image can be the cause.
        case imageLost
    }

    public var code: Code
    /// The description for people, without a full stop.
    public var context: String

    /// The product name that a bundle for the device's board must have; nil: unknown. Only the error `wrongProduct` over SMP sets it.
    public var boardProduct: String?
    /// True if the task is not possible because another image is marked for the device's next boot. Only the error `inTrial` over SMP
    /// sets it.
    public var isMarkedForBoot: Bool
    /// True if the marked image will boot without a trial. After this boot, the device cannot discard the image.
    public var isMarkedPermanently: Bool
    /// True if the device has answered no request of the session.
    public var isSilent: Bool
    /// The application of a device that the push has left in its firmware loader; nil: the application runs, or its state is unknown.
    package var stoppedApplication: StoppedApplication?
    /// The action that makes the update possible; nil: unknown.
    public var remedy: Remedy?

    /// Why the application of a device does not run. The raw values are for messages to people.
    package enum StoppedApplication: String, Sendable {
        case intact = "the application of the device does not run now"
        case overwritten = "the device has no application now"
    }

    /// An action after an error. The error's code alone does not show this action.
    public enum Remedy: Sendable, Equatable {
        /// The image must be in a signed bundle.
        case bundle
        /// The policy of the trusted keys in this file refuses the update.
        case policy(path: String)
        /// The bundle needs a signature by one of these keys, which the device trusts.
        case signature(keys: [KeyID])
        /// The MCUboot image must have a digest of this length in bits, such as 256 for SHA-256.
        case digest(bits: Int)
        /// The device can only store the image. So the image must be uploaded without a mark, and the device restarted.
        case uploadOnly
        /// The device refused a request without a reason. Only the device's log can contain the reason.
        case deviceLog
        /// The values of the link are too short. The device or the adapter needs a larger ATT MTU.
        case longerValues
        /// The bond of this computer does not fit the device, or it is not known whether it was authenticated. So it must be removed.
        case removeBond
        /// The device pairs only without authentication. So the user must check that it is the intended device.
        case checkDevice
        /// Several devices match the address. So the user must give the address of one of them.
        case chooseDevice
    }

    public init(
        _ code: Code, _ context: String, boardProduct: String? = nil, isMarkedForBoot: Bool = false,
        isMarkedPermanently: Bool = false, isSilent: Bool = false, remedy: Remedy? = nil
    ) {
        self.code = code
        self.context = context
        self.boardProduct = boardProduct
        self.isMarkedForBoot = isMarkedForBoot
        self.isMarkedPermanently = isMarkedPermanently
        self.isSilent = isSilent
        self.remedy = remedy
    }

    public static func == (left: UpdateError, right: UpdateError) -> Bool { left.code == right.code }
}
