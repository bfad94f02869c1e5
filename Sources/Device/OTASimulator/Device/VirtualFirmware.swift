public import OTAUpdate

/// The firmware of a virtual device during one boot.
///
/// ``VirtualDeviceOf`` calls the firmware while the device's lock is held. All times are measured from the first power-up, and never
/// decrease. A restart ends all connections and releases the firmware.
public protocol VirtualFirmware: AnyObject {
    associatedtype Configuration: Sendable
    /// The part of the state that a restart does not reset, such as counters for tests.
    associatedtype Memory: AnyObject

    /// The characteristic that receives the bytes of the image.
    static var dataChannel: Channel { get }
    /// Returns the characteristics of the device's GATT table, except the characteristics of the mandatory services such as Generic Access.
    static func channels(_ configuration: Configuration) -> Set<Channel>
    /// Runs the bootloader, and starts the firmware of the selected image.
    ///
    /// - Parameter send: sends a notification to a connection. The closure returns false if no buffer is free.
    /// - Returns: the firmware. Nil if no slot contains a bootable image, or if the firmware refuses the configuration.
    /// - Throws: `FlashError` if a flash operation fails during the boot.
    static func boot(
        _ configuration: Configuration, _ memory: Memory, flash: VirtualFlash, at now: Duration,
        send: @escaping (_ connection: UInt16, _ channel: Channel, _ value: [UInt8]) -> Bool
    ) throws(FlashError) -> Self?
    /// Returns the time that the next boot takes in addition to `bootTime`, for example to swap the images.
    static func extraBootTime(_ configuration: Configuration, flash: VirtualFlash) -> Duration
    /// Returns the duration of each IDENTIFY request, in seconds. A real device blinks for this time; 0 stops the blinking.
    static func identifyRequests(_ memory: Memory) -> [Int]

    var booted: VirtualBootloader.Boot { get }
    /// The length of the running image in bytes. Nil if the firmware cannot read the length.
    var runningImageLength: Int? { get }
    /// The offset and the size of the image that the device is receiving, in bytes. Nil if no image transfer is active.
    var imageReception: (offset: Int, size: Int)? { get }
    /// The time at which the firmware's next work is due. Nil if no work is due before the next event.
    var due: Duration? { get }

    /// Runs all work that is due at `now`. The device calls this function after each event.
    ///
    /// - Returns: false if the device must restart.
    func run(at now: Duration) -> Bool
    /// Sends the notifications that wait for a free buffer of the Bluetooth stack.
    func sendWaiting()

    /// The name by which a transport finds another program of the device; nil: the device has one program.
    static func programName(_ configuration: Configuration) -> String?
    /// True if a second program runs, which receives images in place of the application.
    var runsLoader: Bool { get }
    /// How a transport finds the running program; nil: a transport does not find it.
    var place: ProgramPlace? { get }

    /// Reports a new connection. Returns false if the firmware has no space for another connection.
    func connect(_ connection: UInt16, valueLength: Int, at now: Duration) -> Bool
    func updateLink(_ connection: UInt16, valueLength: Int)
    func disconnect(_ connection: UInt16, at now: Duration)
    func subscribe(_ connection: UInt16, to channel: Channel, on: Bool, at now: Duration) throws(ATTError)
    func read(_ connection: UInt16, _ channel: Channel, offset: Int, capacity: Int) throws(ATTError) -> [UInt8]
    func write(_ connection: UInt16, _ channel: Channel, _ value: [UInt8], at now: Duration) throws(ATTError)
}

/// The time from a restart or a power cut until the firmware runs. A swap of the images takes additional time.
let bootTime = Duration.milliseconds(800)

extension VirtualFirmware {
    public static func extraBootTime(_ configuration: Configuration, flash: VirtualFlash) -> Duration { .zero }
    public static func identifyRequests(_ memory: Memory) -> [Int] { [] }
    public static func programName(_ configuration: Configuration) -> String? { nil }
    public var runsLoader: Bool { false }
    public var place: ProgramPlace? { .ownAddress }
    public func sendWaiting() {}
    public func updateLink(_ connection: UInt16, valueLength: Int) {}
}
