package import OTAUpdate

/// The status byte in an answer and in Progress: success or an error (docs/ota-profile.md, "Statuses").
package enum DeviceStatus: UInt8 {
    case ok = 0
    case unknownOpcode
    case badArgument
    case badState
    case busy
    case envelopeMalformed
    case criticalField
    case untrusted
    case wrongProduct
    case wrongHardware
    case counterTooLow
    case requiresNewer
    case wrongImageFormat
    case imageTooLarge
    case batteryLow
    case flashFailed
    case digestMismatch
    case refusedByPolicy
    /// The running image does not start with the base in BEGIN, or the base is larger than the device accepts.
    case wrongBase
    /// The encoded image cannot be decoded. In the profile, only Progress has this status.
    case notDecoded

    /// The error code of the session if an answer with this status fails the session. Exception: ``ProfileConversation`` handles some
    /// statuses of BEGIN, SYNC, FINISH and APPLY itself.
    package var error: UpdateError.Code {
        switch self {
        case .ok, .unknownOpcode, .badArgument, .badState, .wrongBase, .notDecoded: .protocolViolation
        case .busy: .deviceBusy
        case .envelopeMalformed: .envelopeMalformed
        case .criticalField: .criticalField
        case .untrusted: .untrustedByDevice
        case .wrongProduct: .wrongProduct
        case .wrongHardware: .wrongHardware
        case .counterTooLow: .counterTooLow
        case .requiresNewer: .requiresNewer
        case .wrongImageFormat: .wrongImageFormat
        case .imageTooLarge: .imageTooLarge
        case .batteryLow: .batteryLow
        case .flashFailed: .flashFailed
        case .digestMismatch: .digestMismatch
        case .refusedByPolicy: .refusedByPolicy
        }
    }

    /// The meaning of the status, as the last part of the message "the device refused REQUEST: MEANING" to the user.
    package var meaning: String {
        switch self {
        case .ok: "ok"
        case .unknownOpcode: "unknown request"
        case .badArgument: "wrong arguments"
        case .badState: "not allowed in its current state"
        case .busy: "busy"
        case .envelopeMalformed: "malformed envelope"
        case .criticalField: "the bundle has a critical field that the device does not know"
        case .untrusted: "the bundle is not signed by enough of the device's trusted keys, or a signature is wrong"
        case .wrongProduct: "the bundle is for another product"
        case .wrongHardware: "the bundle is for other hardware revisions"
        case .counterTooLow: "the bundle's security counter is lower than the device's, or lower than its policy allows"
        case .requiresNewer: "the bundle requires a newer version to run first"
        case .wrongImageFormat: "the device cannot boot this image format"
        case .imageTooLarge: "the image is larger than the slot"
        case .batteryLow: "the battery is too low"
        case .flashFailed: "the flash failed"
        case .digestMismatch: "the received bytes have another digest"
        case .refusedByPolicy:
            "the device's policy refuses it: a user may have to consent at the device, or the security counter is too "
                + "far above the device's"
        case .wrongBase: "the running image is not the base"
        case .notDecoded: "the encoded image cannot be decoded"
        }
    }
}
