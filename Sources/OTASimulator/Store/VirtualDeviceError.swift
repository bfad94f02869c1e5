/// Why a virtual device cannot be addressed, made or opened. Compared on the code.
public struct VirtualDeviceError: Error, Sendable, Equatable {
    /// Stable: what a script compares.
    public enum Code: String, Sendable, CaseIterable {
        /// What stands behind `sim:` is not an address.
        case badAddress = "bad-address"
        /// What the device was to be is not possible.
        case badConfiguration = "bad-configuration"
        case exists = "device-exists"
        case noSuchDevice = "no-such-device"
        /// Its folder holds what no version of ours has written.
        case malformed = "device-malformed"
        /// Its folder was written by a later version of ours.
        case fromNewerVersion = "device-from-newer-version"
        case io = "device-io"
    }
    public var code: Code
    /// For people: what was seen, without a full stop.
    public var context: String

    public init(_ code: Code, _ context: String) {
        self.code = code
        self.context = context
    }

    public static func == (left: VirtualDeviceError, right: VirtualDeviceError) -> Bool { left.code == right.code }
}
