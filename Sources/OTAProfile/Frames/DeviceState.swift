/// The state byte of Progress.
package enum DeviceState: UInt8 {
    case idle = 0
    case envelope
    case accepted
    case image
    case verified
    case trial
}
