/// The update protocol of a virtual device.
public enum VirtualDeviceProtocol: String, Sendable {
    /// The GATT OTA profile.
    case ota
    case smp
}
