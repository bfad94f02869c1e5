/// What a device said of itself.
public struct DeviceDescription: Sendable, Equatable {
    public enum State: String, Sendable {
        case idle
        /// An update is under way.
        case receiving
        /// The running image goes back by itself unless it is confirmed.
        case trial
    }
    public struct HeldImage: Sendable, Equatable {
        /// The first 8 bytes of the SHA-256 of the manifest it belongs to.
        public var manifestDigestPrefix: [UInt8]
        /// Bytes held.
        public var offset: Int

        public init(manifestDigestPrefix: [UInt8], offset: Int) {
            self.manifestDigestPrefix = manifestDigestPrefix
            self.offset = offset
        }
    }
    // What is nil the protocol has no word for.
    public var product: String?
    public var hardware: Int?
    /// The security counter of the image it runs for good.
    public var securityCounter: UInt32?
    public var state: State
    public var runningVersion: String
    /// What ran when the session began, where that is another one.
    public var previousVersion: String?
    /// Time from boot within which a trial must be confirmed, in seconds; 0: the device has no trial.
    public var trialSeconds: Int?
    /// Per cent; nil: it runs on mains.
    public var battery: Int?
    public var held: HeldImage?

    public init(
        product: String? = nil, hardware: Int? = nil, securityCounter: UInt32? = nil, state: State,
        runningVersion: String, previousVersion: String? = nil, trialSeconds: Int? = nil, battery: Int? = nil,
        held: HeldImage? = nil
    ) {
        self.product = product
        self.hardware = hardware
        self.securityCounter = securityCounter
        self.state = state
        self.runningVersion = runningVersion
        self.previousVersion = previousVersion
        self.trialSeconds = trialSeconds
        self.battery = battery
        self.held = held
    }
}
