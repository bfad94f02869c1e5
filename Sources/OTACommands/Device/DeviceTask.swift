/// A task for a device, independent of the protocol.
enum DeviceTask: Sendable {
    case push(VerifiedUpdate, PushRequest)
    case status
    case confirm
    case discard
    case identify(seconds: UInt8)
}

/// The options of a push.
struct PushRequest: Sendable {
    /// The last step of the push.
    enum Ending: Sendable {
        case confirm, trial, permanent, uploadOnly
    }
    var resume: Bool
    var ending: Ending
    var refusesDowngrade: Bool
    /// Over SMP: push a bundle even if SMP cannot check all of its fields against the device.
    var acceptsUncheckedTarget: Bool
}
