/// The status that a device reports.
public struct DeviceDescription: Sendable, Equatable {
    public enum State: String, Sendable {
        case idle
        /// An update is in progress.
        case receiving
        /// The running image is on trial: the device rolls back unless the image is confirmed.
        case trial
    }
    /// A half-received image on the device.
    public struct HeldImage: Sendable, Equatable {
        /// The first 8 bytes of the SHA-256 of its manifest.
        public var manifestDigestPrefix: [UInt8]
        /// The number of received bytes.
        public var offset: Int

        public init(manifestDigestPrefix: [UInt8], offset: Int) {
            self.manifestDigestPrefix = manifestDigestPrefix
            self.offset = offset
        }
    }
    // A nil value is not reported by the protocol, if its docstring gives no other meaning.
    public var product: String?
    public var hardware: Int?
    /// The security counter of the confirmed image.
    public var securityCounter: UInt32?
    public var state: State
    public var runningVersion: String
    /// The version that ran at the start of the session, if it is another one.
    public var previousVersion: String?
    /// The time limit from boot to confirm a trial, in seconds; 0: the device has no trial.
    public var trialSeconds: Int?
    /// The battery level in per cent; nil: mains powered, or not reported.
    public var battery: Int?
    /// The half-received image; nil: none.
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
