/// An error in a virtual device's address, its creation or its opening. Two errors are equal if their codes are equal.
public struct VirtualDeviceError: Error, Sendable, Equatable {
    /// Identifies the error for scripts. The values are stable.
    public enum Code: String, Sendable, CaseIterable {
        /// The text after `sim:` is not a valid address.
        case badAddress = "bad-address"
        /// A value of the configuration is invalid.
        case badConfiguration = "bad-configuration"
        case exists = "device-exists"
        case noSuchDevice = "no-such-device"
        /// The device's folder contains data that no release of otaflash has written.
        case malformed = "device-malformed"
        /// A later release of otaflash has written the device's folder.
        case fromNewerVersion = "device-from-newer-version"
        case io = "device-io"
    }
    public var code: Code
    /// Describes the problem to the user, without a full stop at the end.
    public var context: String

    public init(_ code: Code, _ context: String) {
        self.code = code
        self.context = context
    }

    public static func == (left: VirtualDeviceError, right: VirtualDeviceError) -> Bool { left.code == right.code }
}
