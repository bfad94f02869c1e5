/// What a virtual device speaks.
public enum VirtualDeviceProtocol: String, Sendable {
    /// The GATT OTA profile.
    case ota
    case smp
}
