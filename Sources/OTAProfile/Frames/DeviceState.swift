/// The state byte of Progress.
enum DeviceState: UInt8 {
    case idle = 0
    case envelope
    case accepted
    case image
    case verified
    case trial
}
