package import OTAUpdate

/// The status byte of an answer.
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

    /// The error code of a session that ends with this status.
    package var error: UpdateError.Code {
        switch self {
        case .ok, .unknownOpcode, .badArgument, .badState: .protocolViolation
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

    /// The meaning for the user, after "the device refused REQUEST:".
    package var meaning: String {
        switch self {
        case .ok: "ok"
        case .unknownOpcode: "it does not know the request"
        case .badArgument: "it finds the request's arguments wrong"
        case .badState: "it is in no state for the request"
        case .busy: "it is busy"
        case .envelopeMalformed: "it finds the envelope malformed"
        case .criticalField: "the bundle holds a critical field that it does not know"
        case .untrusted: "the bundle is not signed by enough keys that it trusts, or a signature is wrong"
        case .wrongProduct: "the bundle is for another product"
        case .wrongHardware: "the bundle is for other hardware revisions"
        case .counterTooLow: "the bundle's security counter is below its own, or older than its policy allows"
        case .requiresNewer: "the bundle requires a newer version to run first"
        case .wrongImageFormat: "it cannot boot this image format"
        case .imageTooLarge: "the image is larger than its slot"
        case .batteryLow: "its battery is too low"
        case .flashFailed: "its flash failed"
        case .digestMismatch: "what it received has another digest"
        case .refusedByPolicy:
            "its policy refuses it: a person may have to consent at the device, or the security counter is too far "
                + "above the device's"
        }
    }
}
