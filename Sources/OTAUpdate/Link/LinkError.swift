/// The reason why a link could not be opened or was lost, or why a command failed. Errors are equal if their codes are.
public struct LinkError: Error, Sendable, Equatable {
    public enum Code: String, Sendable {
        /// This machine lacks the transport: for example no adapter, or no bluetoothd.
        case unavailable = "link-unavailable"
        /// No device with this address was found.
        case noSuchDevice = "no-such-device"
        /// Another otaflash uses the device; the detail has its process id.
        case inUse = "device-in-use"
        /// The link did not open within the time limit of the transport.
        case timedOut = "connect-timeout"
        /// The link was open and ended.
        case lost = "link-lost"
        /// The device answered a command with an error.
        case refused = "attribute-refused"
        /// The device demands pairing first.
        case notPermitted = "not-permitted"
    }
    public var code: Code
    /// The description for people, without a full stop.
    public var detail: String

    public init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    public static func == (left: LinkError, right: LinkError) -> Bool { left.code == right.code }
}
