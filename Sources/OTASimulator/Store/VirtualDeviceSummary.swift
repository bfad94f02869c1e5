/// A virtual device as a list shows it.
public struct VirtualDeviceSummary: Sendable, Equatable {
    public var name: String
    public var updateProtocol: VirtualDeviceProtocol
    /// Of one that speaks SMP: its board.
    public var product: String
    // What SMP has no word for is nil.
    public var hardware: UInt16?
    /// Of the image that runs for good.
    public var version: String
    public var securityCounter: UInt32?
}
