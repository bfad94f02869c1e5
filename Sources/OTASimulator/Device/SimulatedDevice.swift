public import OTAUpdate

/// A device without hardware, as a link sees it: it is handed what comes, in order, with the time since it was switched on,
/// and calls whom it was given with what goes out.
public protocol SimulatedDevice: AnyObject, Sendable {
    /// What it has in its GATT table, the services every device has left out.
    var channels: Set<Channel> { get }
    /// Where the image's bytes come.
    var dataChannel: Channel { get }
    /// The latest time it was told.
    var now: Duration { get }

    /// Sets who hears of it: a notification goes to a connection (false: no buffer now, offer it again), and a restart ends
    /// all connections.
    func observe(
        onNotification: @escaping @Sendable (_ connection: UInt16, _ channel: Channel, _ value: [UInt8]) -> Bool,
        onRestart: @escaping @Sendable () -> Void)

    /// When it can be connected: `now`, or later, or never (nil).
    func reachable(at now: Duration) -> Duration?
    /// A central has connected, over whose link values of at most so many bytes go. False: there is nobody, or no room.
    func connect(_ connection: UInt16, valueLength: Int, at now: Duration) -> Bool
    /// Its link carries longer values, or shorter ones, than it did when it was connected.
    func updateLink(_ connection: UInt16, valueLength: Int)
    func disconnect(_ connection: UInt16, at now: Duration)
    /// Whether this connection still exists: a restart ends it.
    func isConnected(_ connection: UInt16) -> Bool
    func subscribe(_ connection: UInt16, to channel: Channel, on: Bool, at now: Duration) throws(ATTError)
    func read(
        _ connection: UInt16, _ channel: Channel, offset: Int, capacity: Int, at now: Duration
    ) throws(ATTError) -> [UInt8]
    /// With response or without.
    func write(_ connection: UInt16, _ channel: Channel, _ value: [UInt8], at now: Duration) throws(ATTError)
    /// Lets it do what is due.
    ///
    /// - Returns: When to call it again at the latest; nil: not before something happens.
    func poll(at now: Duration) -> Duration?

    /// The power goes, and comes back at once.
    func losePower(at now: Duration)
    /// Further power cuts and worn programs, at flash operations counted from now.
    ///
    /// - Returns: The operations before that.
    func schedule(_ cuts: [PowerCut], worn: [Int]) -> Int
    /// Further flash operations that fail with the power on, counted from now.
    func schedule(_ faults: [FlashFault])
    /// Erases and programs of its flash so far, those of its making included.
    var flashOperationCount: Int { get }
    /// How far it is with the image it is receiving, in bytes; nil: it is receiving none.
    var imageReception: (offset: Int, size: Int)? { get }
}

extension VirtualDevice: SimulatedDevice {
    public var dataChannel: Channel { VirtualGATT.data }

    /// The core reads a value in parts and notifies short ones: it need not know how long one may be.
    public func connect(_ connection: UInt16, valueLength: Int, at now: Duration) -> Bool {
        connect(connection, at: now)
    }

    public func updateLink(_ connection: UInt16, valueLength: Int) {}
}
