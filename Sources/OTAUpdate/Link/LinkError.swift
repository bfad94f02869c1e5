/// Why there is no link, or why a command on it was not carried out. Compared on the code.
public struct LinkError: Error, Sendable, Equatable {
    public enum Code: String, Sendable {
        /// No transport on this machine: no adapter, no service to speak to.
        case unavailable = "link-unavailable"
        /// Nobody with this address is there.
        case noSuchDevice = "no-such-device"
        /// Another process of ours has the device; the detail tells its id.
        case inUse = "device-in-use"
        /// No link within the time that the transport gives it.
        case timedOut = "connect-timeout"
        /// It was there, and is gone.
        case lost = "link-lost"
        /// The device answered a command with an error.
        case refused = "attribute-refused"
        /// The device demands a bond first.
        case notPermitted = "not-permitted"
    }
    public var code: Code
    /// For people: what was seen, without a full stop.
    public var detail: String

    public init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    public static func == (left: LinkError, right: LinkError) -> Bool { left.code == right.code }
}
