public import OTAFirmware

/// A virtual device as a list shows it.
public struct VirtualDeviceSummary: Sendable, Equatable {
    public var name: String
    public var product: ProductName
    public var hardware: UInt16
    /// Of the image that runs for good.
    public var version: String
    public var securityCounter: UInt32
}
