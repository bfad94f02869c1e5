/// Why an update did not happen. Compared on the code.
public struct UpdateError: Error, Sendable, Equatable {
    /// Stable: documented in `docs/errors.md`, and what a script compares.
    public enum Code: String, Sendable, CaseIterable {
        // The link.
        case linkUnavailable = "link-unavailable"
        case noSuchDevice = "no-such-device"
        case deviceInUse = "device-in-use"
        case linkLost = "link-lost"
        case notPermitted = "not-permitted"
        case interrupted
        case noProgress = "no-progress"
        case timedOut = "timed-out"
        // The device broke the protocol, or does not speak it.
        case unsupportedDevice = "unsupported-device"
        case protocolViolation = "protocol-violation"
        case noAnswer = "no-answer"
        case deviceBusy = "device-busy"
        case flashFailed = "flash-failed"
        case digestMismatch = "digest-mismatch"
        // Refused, by the preflight here or by the device.
        case envelopeMalformed = "envelope-malformed"
        case criticalField = "critical-field"
        case untrustedByDevice = "untrusted-by-device"
        case wrongProduct = "wrong-product"
        case wrongHardware = "wrong-hardware"
        /// The protocol cannot answer whether the bundle is for the device.
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
        // After the restart.
        case rolledBack = "rolled-back"
        case didNotReturn = "did-not-return"
    }
    public var code: Code
    /// For people: what was seen, without a full stop.
    public var context: String

    /// For `wrongProduct` over SMP: the product name of a bundle that fits the device's board; nil where it is not known.
    public var boardProduct: String?

    public init(_ code: Code, _ context: String, boardProduct: String? = nil) {
        self.code = code
        self.context = context
        self.boardProduct = boardProduct
    }

    public static func == (left: UpdateError, right: UpdateError) -> Bool { left.code == right.code }
}
