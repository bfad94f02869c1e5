public import OTAUpdate

/// The properties of a virtual device in a list.
public struct VirtualDeviceSummary: Sendable, Equatable {
    public var name: String
    public var updateProtocol: UpdateProtocol
    /// The product; for an SMP device, the board.
    public var product: String
    /// The hardware revision. Nil for an SMP device, because SMP does not report it.
    public var hardware: UInt16?
    /// The version of the permanent image.
    public var version: String
    /// The security counter of the permanent image. Nil for an SMP device, because SMP does not report it.
    public var securityCounter: UInt32?
}
