/// The error of a failed update. Errors are equal if their codes are.
public struct UpdateError: Error, Sendable, Equatable {
    /// The error code. Scripts compare it, so it never changes. `docs/errors.md` documents it.
    public enum Code: String, Sendable, CaseIterable {
        // Errors of the link.
        case linkUnavailable = "link-unavailable"
        case noSuchDevice = "no-such-device"
        case deviceInUse = "device-in-use"
        case linkLost = "link-lost"
        case notPermitted = "not-permitted"
        case interrupted
        case noProgress = "no-progress"
        case timedOut = "timed-out"
        // The device violates the protocol, does not support it, or fails.
        case unsupportedDevice = "unsupported-device"
        case protocolViolation = "protocol-violation"
        case noAnswer = "no-answer"
        case deviceBusy = "device-busy"
        case flashFailed = "flash-failed"
        case digestMismatch = "digest-mismatch"
        // Refused by the preflight of otaflash or by the device.
        case envelopeMalformed = "envelope-malformed"
        case criticalField = "critical-field"
        case untrustedByDevice = "untrusted-by-device"
        case wrongProduct = "wrong-product"
        case wrongHardware = "wrong-hardware"
        /// The protocol cannot check whether the bundle is for the device.
        case targetUnchecked = "target-unchecked"
        case counterTooLow = "counter-too-low"
        case requiresNewer = "requires-newer"
        case wrongImageFormat = "wrong-image-format"
        case imageTooLarge = "image-too-large"
        case batteryLow = "battery-low"
        case refusedByPolicy = "refused-by-policy"
        case downgrade
        case inTrial = "in-trial"
        case notInTrial = "not-in-trial"
        case noTrial = "no-trial"
        case trialAvailable = "trial-available"
        // Errors after the restart.
        case rolledBack = "rolled-back"
        case didNotReturn = "did-not-return"
    }
    public var code: Code
    /// The description for people, without a full stop.
    public var context: String

    /// For `wrongProduct` over SMP: the product name that a bundle for the device's board must have; nil: not known.
    public var boardProduct: String?

    public init(_ code: Code, _ context: String, boardProduct: String? = nil) {
        self.code = code
        self.context = context
        self.boardProduct = boardProduct
    }

    public static func == (left: UpdateError, right: UpdateError) -> Bool { left.code == right.code }
}
