/// What is to be done with a device, whatever protocol it speaks.
enum DeviceTask: Sendable {
    case push(VerifiedUpdate, PushRequest)
    case status
    case confirm
    case discard
    case identify(seconds: UInt8)
}

struct PushRequest: Sendable {
    enum Ending: Sendable {
        case confirm, trial, permanent, uploadOnly
    }
    var resume: Bool
    var ending: Ending
    var refusesDowngrade: Bool
    /// Over SMP: push a bundle even if not all of its fields can be checked against the device.
    var acceptsUncheckedTarget: Bool
}
