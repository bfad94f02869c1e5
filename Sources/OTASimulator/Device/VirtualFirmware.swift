public import OTAUpdate

/// The firmware of a virtual device during one boot.
///
/// `VirtualDeviceOf` calls it under its lock. Times are measured from the first power-up, and do not decrease. A restart ends all connections
/// and releases the firmware.
public protocol VirtualFirmware: AnyObject {
    associatedtype Configuration: Sendable
    /// The part of the state that a restart does not reset, such as counters for tests.
    associatedtype Memory: AnyObject

    /// The characteristic that receives the image's bytes.
    static var dataChannel: Channel { get }
    /// The characteristics in the device's GATT table, without the services that every device has.
    static func channels(_ configuration: Configuration) -> Set<Channel>
    /// Boots the image that the bootloader selects.
    ///
    /// - Parameter send: sends a notification to a connection. It returns false if no buffer is free.
    /// - Returns: nil if no slot contains a bootable image.
    static func boot(
        _ configuration: Configuration, _ memory: Memory, flash: VirtualFlash, at now: Duration,
        send: @escaping (_ connection: UInt16, _ channel: Channel, _ value: [UInt8]) -> Bool
    ) throws(FlashError) -> Self?
    /// Returns the time that the next boot takes in addition to `bootTime`, for example for a swap.
    static func extraBootTime(_ configuration: Configuration, flash: VirtualFlash) -> Duration
    /// Returns the duration of each request to blink, in seconds; 0 stops the blinking.
    static func identifyRequests(_ memory: Memory) -> [Int]

    var booted: VirtualBootloader.Boot { get }
    /// The length of the running image, in bytes; nil if it cannot be read.
    var runningImageLength: Int? { get }
    /// The offset and the size of the image in reception, in bytes; nil if the device receives none.
    var imageReception: (offset: Int, size: Int)? { get }
    /// The time of the next work; nil if no work is needed before the next event.
    var due: Duration? { get }

    /// Runs all work that is due. Called after each event.
    ///
    /// - Returns: false if the device restarts.
    func run(at now: Duration) -> Bool
    /// Sends the notifications that waited for a free buffer.
    func sendWaiting()

    /// Reports a new connection. Returns false if the firmware has no space for another connection.
    func connect(_ connection: UInt16, valueLength: Int, at now: Duration) -> Bool
    func updateLink(_ connection: UInt16, valueLength: Int)
    func disconnect(_ connection: UInt16, at now: Duration)
    func subscribe(_ connection: UInt16, to channel: Channel, on: Bool, at now: Duration) throws(ATTError)
    func read(_ connection: UInt16, _ channel: Channel, offset: Int, capacity: Int) throws(ATTError) -> [UInt8]
    func write(_ connection: UInt16, _ channel: Channel, _ value: [UInt8], at now: Duration) throws(ATTError)
}

/// The time from a restart or a power-up until the firmware runs, without the time for a swap.
let bootTime = Duration.milliseconds(800)

extension VirtualFirmware {
    public static func extraBootTime(_ configuration: Configuration, flash: VirtualFlash) -> Duration { .zero }
    public static func identifyRequests(_ memory: Memory) -> [Int] { [] }
    public func sendWaiting() {}
    public func updateLink(_ connection: UInt16, valueLength: Int) {}
}
