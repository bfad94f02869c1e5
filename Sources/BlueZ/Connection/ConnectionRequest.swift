/// The parameters of a connection.
public struct ConnectionRequest: Sendable {
    public var target: DeviceTarget
    /// The adapter's name, such as `hci1`. Nil: the first powered adapter.
    public var adapter: String?
    /// The expected services. They detect a stale cache of bluetoothd: if the device has none of them, or lacks one that it advertises,
    /// bluetoothd reads the services of the device again. The connection does not fail if the device still has none of them.
    public var services: Set<BluetoothUUID>
    /// Whether to end a link of another program first, for exclusive use of the device. If false, the link is shared. A
    /// shared link stays connected at the end.
    public var takesOver: Bool
    /// Whether bluetoothd must read the device's attributes again. This removes a bond.
    public var refreshesCache: Bool
    /// A check of the found device before this library connects to it; nil: every device is accepted. If the check throws, the attempt to
    /// connect ends with that error.
    public var admits: (@Sendable (BluetoothDevice) async throws(BlueZError) -> Void)?
    /// The time limit of each step: waiting, scanning, connecting, discovering.
    package var limit = Duration.seconds(10)
    /// Whether bluetoothd and the adapter were available before. Only then is it useful to wait for them.
    package var waitsForAdapter = false

    public init(
        _ target: DeviceTarget, adapter: String? = nil, services: Set<BluetoothUUID> = [], takesOver: Bool = false,
        refreshesCache: Bool = false, admits: (@Sendable (BluetoothDevice) async throws(BlueZError) -> Void)? = nil
    ) {
        self.target = target
        self.adapter = adapter
        self.services = services
        self.takesOver = takesOver
        self.refreshesCache = refreshesCache
        self.admits = admits
    }
}

/// Selects the device to connect.
public enum DeviceTarget: Sendable, Hashable {
    case address(BluetoothAddress)
    /// The only device in range with this name. The name is the device's own name, or its alias on this machine.
    case name(String)
    /// The only device in range that advertises one of these services.
    case only(services: Set<BluetoothUUID>)

    public static func only(service: BluetoothUUID) -> DeviceTarget { .only(services: [service]) }

    func matches(_ device: BluetoothDevice) -> Bool {
        switch self {
        case .address(let address): device.address == address
        case .name(let name): device.isCalled(name)
        case .only(let services): !services.isDisjoint(with: device.serviceUUIDs)
        }
    }
}

extension DeviceTarget: CustomStringConvertible {
    public var description: String {
        switch self {
        case .address(let address): address.description
        case .name(let name): "a device named “\(name)”"
        case .only(let services):
            "a device with the service \(services.map(\.description).sorted().joined(separator: " or "))"
        }
    }
}
