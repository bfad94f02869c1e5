/// Why something over Bluetooth did not happen. Compared on the code and the ATT error.
public struct BlueZError: Error, Sendable, Equatable {
    /// Stable.
    public enum Code: String, Sendable, CaseIterable {
        // This machine.
        /// There is no system bus, or it has gone.
        case busUnavailable = "bus-unavailable"
        /// bluetoothd does not run, or it has gone.
        case serviceUnavailable = "bluetoothd-unavailable"
        /// The bus does not let this user speak to bluetoothd.
        case accessDenied = "access-denied"
        case noSuchAdapter = "no-such-adapter"
        case adapterOff = "adapter-off"
        // The device.
        case noSuchDevice = "no-such-device"
        /// More than one device is what was asked for; the context lists them.
        case ambiguousDevice = "ambiguous-device"
        case timedOut = "timed-out"
        case connectionFailed = "connection-failed"
        case disconnected
        case pairingFailed = "pairing-failed"
        // An object of BlueZ, or an attribute of the device.
        /// A device, service or characteristic that is not there, or not any more.
        case noSuchObject = "no-such-object"
        /// The device wants the link encrypted, or the bond authenticated, first.
        case notPaired = "not-paired"
        case notPermitted = "not-permitted"
        /// Another program has acquired the characteristic.
        case acquiredElsewhere = "acquired-elsewhere"
        case invalidLength = "invalid-length"
        /// The device answered with an ATT error: see `attributeError`.
        case attributeError = "attribute-error"
        // Any call.
        case inProgress = "in-progress"
        /// What was asked for is so already.
        case alreadyDone = "already-done"
        case notSupported = "not-supported"
        case invalidArguments = "invalid-arguments"
        /// bluetoothd answered with something it should not.
        case unexpectedReply = "unexpected-reply"
        case failed
        /// The task was cancelled.
        case cancelled
    }

    public var code: Code
    /// For people: what was seen, without a full stop.
    public var context: String
    /// The ATT error code (Core Specification, Vol 3, Part F, 3.4.1.1), with `attributeError`.
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
