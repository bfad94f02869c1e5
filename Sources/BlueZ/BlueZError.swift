/// An error of a Bluetooth operation. Equality compares the code and the ATT error.
public struct BlueZError: Error, Sendable, Equatable {
    /// The kind of the error. The raw values are stable.
    public enum Code: String, Sendable, CaseIterable {
        // Errors of this machine.
        /// The system bus is not available, or its connection has ended.
        case busUnavailable = "bus-unavailable"
        /// bluetoothd is not running, or it has stopped.
        case serviceUnavailable = "bluetoothd-unavailable"
        /// The bus does not permit this user to call bluetoothd.
        case accessDenied = "access-denied"
        case noSuchAdapter = "no-such-adapter"
        case adapterOff = "adapter-off"
        // Errors of the device.
        case noSuchDevice = "no-such-device"
        /// More than one device matches. The context lists them.
        case ambiguousDevice = "ambiguous-device"
        case timedOut = "timed-out"
        case connectionFailed = "connection-failed"
        case disconnected
        case pairingFailed = "pairing-failed"
        // Errors of a BlueZ object or of an attribute of the device.
        /// A device, service or characteristic does not exist, or no longer exists.
        case noSuchObject = "no-such-object"
        /// The device requires an encrypted link or an authenticated bond first.
        case notPaired = "not-paired"
        case notPermitted = "not-permitted"
        /// Another program uses the device, or has acquired the characteristic.
        case acquiredElsewhere = "acquired-elsewhere"
        case invalidLength = "invalid-length"
        /// The device replied with an ATT error; see `attributeError`.
        case attributeError = "attribute-error"
        // Errors of any call.
        case inProgress = "in-progress"
        /// The requested state already exists.
        case alreadyDone = "already-done"
        case notSupported = "not-supported"
        case invalidArguments = "invalid-arguments"
        /// The reply of bluetoothd is malformed or unexpected.
        case unexpectedReply = "unexpected-reply"
        case failed
        /// The task was cancelled.
        case cancelled
    }

    public var code: Code
    /// A description for people, without a full stop.
    public var context: String
    /// The ATT error code (Core Specification, Vol 3, Part F, 3.4.1.1). Set with `attributeError`.
    public var attributeError: UInt8?

    public init(_ code: Code, _ context: String, attributeError: UInt8? = nil) {
        self.code = code
        self.context = context
        self.attributeError = attributeError
    }

    public static func == (left: BlueZError, right: BlueZError) -> Bool {
        left.code == right.code && left.attributeError == right.attributeError
    }
}

extension BlueZError: CustomStringConvertible {
    public var description: String { "\(code.rawValue): \(context)" }
}
