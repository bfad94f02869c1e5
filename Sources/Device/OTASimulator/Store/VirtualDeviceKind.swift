package import OTAFirmware
package import OTASigning
public import OTAUpdate

/// The virtual devices of one update protocol. Each protocol has a folder with its firmware, its `device.json` and this definition. The
/// table `Protocols` of OTAClient lists them.
package protocol VirtualDeviceKind: Sendable {
    var updateProtocol: UpdateProtocol { get }
    /// The abilities of a new device that `simulate create --without` can remove, each with a description for the help.
    var abilities: [(name: String, description: String)] { get }

    /// Creates a device.
    ///
    /// - Throws: `exists`, `folderExists`, `badConfiguration`, `io`; `badAddress` if the name is invalid.
    func create(
        _ name: String, _ wanted: NewVirtualDevice, in store: VirtualDeviceStore
    ) throws(VirtualDeviceError)
    /// Creates the device for the address `sim:`, with a configuration that accepts `update`.
    ///
    /// - Returns: a description for the user.
    func createDemo(
        _ name: String, accepting update: VerifiedUpdate, _ trust: TrustStore, in store: VirtualDeviceStore
    ) throws(VirtualDeviceError) -> String
    func open(
        _ name: String, in store: VirtualDeviceStore, for use: VirtualDeviceUse
    ) throws(VirtualDeviceError) -> any ObservedDevice
    func summary(of name: String, in store: VirtualDeviceStore) throws(VirtualDeviceError) -> VirtualDeviceSummary
}

/// The properties of a new virtual device that do not depend on the protocol.
package struct NewVirtualDevice: Sendable {
    package var product: ProductName
    package var version: SemanticVersion
    package var trust: TrustStore
    /// The names of the abilities that the device does not have.
    package var without: Set<String>

    package init(
        product: ProductName, version: SemanticVersion, trust: TrustStore, without: Set<String> = []
    ) {
        (self.product, self.version, self.trust, self.without) = (product, version, trust, without)
    }
}

/// The caller of a virtual device. The device adapts to it.
package enum VirtualDeviceUse: Sendable {
    case simulated(VirtualDeviceAddress)
    case bluetooth
    case udp
    /// A serial line. `overhead` is the number of bytes by which the framing shortens a packet.
    case serial(overhead: Int)
}

/// A virtual device whose state changes are reported to the user.
package protocol ObservedDevice: SimulatedDevice {
    /// The running image; nil: the device is restarting, or cannot boot.
    var running: VirtualBootloader.Boot? { get }
    /// True if the firmware loader runs in place of the application.
    var runsLoader: Bool { get }
    /// The state that the bootloader stores in flash; nil: the flash contains no valid boot record.
    var bootState: BootState? { get }
    /// The durations of all requests to blink, in seconds. The duration 0 stops the blinking.
    var identifyRequests: [Int] { get }
    /// Stops the device and closes its connections. The flash keeps its state, and an image on trial remains on trial.
    func suspend()
}

extension VirtualDeviceOf: ObservedDevice {}

/// The properties of a virtual device that a list of devices shows.
public struct VirtualDeviceSummary: Sendable, Equatable {
    public var name: String
    public var updateProtocol: UpdateProtocol
    /// The product name. For an SMP device, the board name.
    public var product: String
    /// The hardware revision. Nil for an SMP device, because SMP has no hardware revision.
    public var hardware: UInt16?
    /// The version of the permanent image. The device boots the permanent image at each boot that does not start a trial.
    public var version: String
    /// The security counter of the permanent image. Nil for an SMP device, because SMP does not report a security counter.
    public var securityCounter: UInt32?
    /// The number of trusted keys that must have signed a bundle. Nil for an SMP device.
    public var requiredSignatures: Int?

    package init(name: String, _ updateProtocol: UpdateProtocol, product: String, version: String) {
        (self.name, self.updateProtocol, self.product, self.version) = (name, updateProtocol, product, version)
    }
}
