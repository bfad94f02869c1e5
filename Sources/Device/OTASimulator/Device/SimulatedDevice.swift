public import OTAUpdate

/// The interface of a virtual device for its callers. A caller is a simulated radio, or a server for a real transport such as Bluetooth.
///
/// The caller reports each event to the device, in order. In all calls, `now` is the time since the device's first power-up. The device
/// calls the closures of `observe` for notifications and restarts.
public protocol SimulatedDevice: AnyObject, Sendable {
    /// The characteristics of the device's GATT table, except the characteristics of the mandatory services such as Generic Access.
    var channels: Set<Channel> { get }
    /// The characteristic that receives the bytes of the image.
    var dataChannel: Channel { get }
    /// The latest time that a caller passed to the device, measured from the device's first power-up.
    var now: Duration { get }

    /// Sets the closures for notifications and restarts.
    ///
    /// - Parameters:
    ///   - onNotification: sends a notification to a connection. The closure returns false if no buffer is free. In this case, the device
    ///     sends the notification again later.
    ///   - onRestart: runs after each restart of the device. A restart ends all connections.
    func observe(
        onNotification: @escaping @Sendable (_ connection: UInt16, _ channel: Channel, _ value: [UInt8]) -> Bool,
        onRestart: @escaping @Sendable () -> Void)

    /// Returns the earliest time for a connection, not before `now`. Returns nil if the device never accepts a connection again, for
    /// example because no slot contains a bootable image.
    func reachable(at now: Duration) -> Duration?
    /// The name by which a transport finds another program of the device (`LinkProperties.programName`); nil: the device has one program.
    var programName: String? { get }
    /// Returns how a transport finds the program that runs at `now`; nil: a transport does not find it, or no program runs.
    func place(at now: Duration) -> ProgramPlace?
    /// Reports a new connection. Returns false if the device is off or has no space for another connection.
    ///
    /// - Parameter valueLength: the maximum length of a value on this connection, in bytes.
    func connect(_ connection: UInt16, valueLength: Int, at now: Duration) -> Bool
    /// Reports a new maximum length of the values on a connection, in bytes.
    func updateLink(_ connection: UInt16, valueLength: Int)
    /// Reports the end of a connection.
    func disconnect(_ connection: UInt16, at now: Duration)
    /// Returns whether a connection still exists. A restart ends all connections.
    func isConnected(_ connection: UInt16) -> Bool
    /// Turns the notifications of a characteristic on or off for a connection.
    func subscribe(_ connection: UInt16, to channel: Channel, on: Bool, at now: Duration) throws(ATTError)
    /// Returns the bytes of a characteristic's value from `offset`, at most `capacity` bytes.
    func read(
        _ connection: UInt16, _ channel: Channel, offset: Int, capacity: Int, at now: Duration
    ) throws(ATTError) -> [UInt8]
    /// Writes a value to a characteristic, with or without response.
    func write(_ connection: UInt16, _ channel: Channel, _ value: [UInt8], at now: Duration) throws(ATTError)
    /// Runs all work that is due at `now`.
    ///
    /// - Returns: the time at which the caller must call this function again. An earlier call is allowed. Nil if no call is needed before
    ///   the next event.
    func poll(at now: Duration) -> Duration?

    /// Interrupts the power for a short time, so that the device restarts.
    func losePower(at now: Duration)
    /// Schedules power cuts and worn writes. A worn write stores one wrong bit and reports success. The operation numbers count from this
    /// call: 1 is the next flash operation.
    ///
    /// - Parameters:
    ///   - cuts: the power cuts.
    ///   - worn: the operation numbers of the worn writes.
    /// - Returns: the number of flash operations before this call.
    func schedule(_ cuts: [PowerCut], worn: [Int]) -> Int
    /// Schedules flash faults: errors and wrong data without a loss of power. The operation numbers count from this call: 1 is the next
    /// flash operation.
    func schedule(_ faults: [FlashFault])
    /// The number of writes and erases since the creation of the device's ``VirtualFlash``.
    var flashOperationCount: Int { get }
    /// The offset and the size of the image that the device is receiving, in bytes. Nil if no image transfer is active.
    var imageReception: (offset: Int, size: Int)? { get }
}

/// The GATT table of a virtual device with the GATT OTA profile (docs/ota-profile.md). The host has its own copy of these constants, so
/// that tests detect an error in one of the two copies.
public enum VirtualGATT {
    public static let service: UInt128 = 0xc7e10001_63a0_486d_9bcb_a18d79d9acd9
    public static let info = Channel(service: service, characteristic: 0xc7e10002_63a0_486d_9bcb_a18d79d9acd9)
    public static let control = Channel(service: service, characteristic: 0xc7e10003_63a0_486d_9bcb_a18d79d9acd9)
    public static let data = Channel(service: service, characteristic: 0xc7e10004_63a0_486d_9bcb_a18d79d9acd9)
    public static let progress = Channel(service: service, characteristic: 0xc7e10005_63a0_486d_9bcb_a18d79d9acd9)
    public static let version = Channel(service: service, characteristic: 0xc7e10006_63a0_486d_9bcb_a18d79d9acd9)
    /// The characteristic Battery Level (0x2A19) of the standard Battery service (0x180F).
    public static let battery = Channel(
        service: 0x0000180F_0000_1000_8000_00805F9B34FB, characteristic: 0x00002A19_0000_1000_8000_00805F9B34FB)
    /// The properties of the characteristics.
    public static let operations: [Channel: Set<ChannelOperation>] = [
        info: [.read], control: [.write, .notify], data: [.writeWithoutResponse, .write], progress: [.read, .notify],
        version: [.read], battery: [.read],
    ]
}

/// An error code of the Attribute Protocol (ATT). A device returns an error code for a failed read or write (Bluetooth Core Specification,
/// volume 3, part F, 3.4.1.1).
public struct ATTError: Error, Sendable, Hashable {
    public let code: UInt8

    public init(code: UInt8) { self.code = code }

    public static let readNotPermitted = ATTError(code: 0x02)
    public static let writeNotPermitted = ATTError(code: 0x03)
    public static let insufficientAuthentication = ATTError(code: 0x05)
    public static let attributeNotFound = ATTError(code: 0x0A)
    /// The ATT error "Unlikely Error". The virtual device also returns this error if the connection does not exist.
    public static let unlikely = ATTError(code: 0x0E)

    /// Whether the error means that the device requires a bond. This is true for insufficient authentication (0x05), authorization (0x08),
    /// encryption key size (0x0C) and encryption (0x0F).
    public var demandsBond: Bool { [0x05, 0x08, 0x0C, 0x0F].contains(code) }
}

/// How a transport finds the running program of a device (`LinkTarget.program`).
public enum ProgramPlace: Sendable {
    /// At the address of the device.
    case ownAddress
    /// At another address, by the name `LinkProperties.programName`.
    case otherAddress
    /// At another address, without this name. Only a transport that has this address finds the program.
    case unknownAddress
}
