package import DBus

/// An error of a Bluetooth operation. Two errors are equal if their codes and their ATT errors are equal.
public struct BlueZError: Error, Sendable, Equatable {
    /// The kind of the error. The raw values do not change between versions.
    public enum Code: String, Sendable, CaseIterable {
        // Errors of this machine.
        /// The system bus is not available, or the connection to the bus has ended.
        case busUnavailable = "bus-unavailable"
        /// bluetoothd is not running, or it has stopped.
        case serviceUnavailable = "bluetoothd-unavailable"
        /// The bus does not permit this user to call bluetoothd.
        case accessDenied = "access-denied"
        case noSuchAdapter = "no-such-adapter"
        case adapterOff = "adapter-off"
        // Errors of the device.
        case noSuchDevice = "no-such-device"
        /// More than one device in range matches the ``DeviceTarget``. The context lists these devices.
        case ambiguousDevice = "ambiguous-device"
        case timedOut = "timed-out"
        case connectionFailed = "connection-failed"
        case disconnected
        case pairingFailed = "pairing-failed"
        // Errors of a BlueZ object or of an attribute of the device.
        /// A device, service or characteristic does not exist, or no longer exists.
        case noSuchObject = "no-such-object"
        /// The operation needs an encrypted link or an authenticated bond.
        case notPaired = "not-paired"
        case notPermitted = "not-permitted"
        /// Another program uses the device, or this or another program has acquired a socket of the characteristic.
        case acquiredElsewhere = "acquired-elsewhere"
        case invalidLength = "invalid-length"
        /// The device replied with an ATT error. The property `attributeError` contains the error code.
        case attributeError = "attribute-error"
        // Errors of any call.
        case inProgress = "in-progress"
        /// The requested state already exists. For example, the device is already connected.
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
    /// A description of the error for the user, without a full stop.
    public var context: String
    /// The ATT error code (Core Specification, Vol 3, Part F, 3.4.1.1). Nil if `code` is not `attributeError`.
    public var attributeError: UInt8?
    /// A problem of the bond between this machine and the device; nil: the error is not about a bond.
    public var bond: BondProblem?

    /// A problem of the bond between this machine and a device.
    public enum BondProblem: Sendable {
        /// The device has paired, or can pair, only without authentication.
        case unauthenticated
        /// This machine has a bond that the device may not have. Either the device has lost it, or it is another device.
        case mismatched
        /// This machine has a bond, and it is not known whether it was authenticated.
        case unknown
    }

    public init(_ code: Code, _ context: String, attributeError: UInt8? = nil, bond: BondProblem? = nil) {
        self.code = code
        self.context = context
        self.attributeError = attributeError
        self.bond = bond
    }

    public static func == (left: BlueZError, right: BlueZError) -> Bool {
        left.code == right.code && left.attributeError == right.attributeError
    }
}

extension BlueZError: CustomStringConvertible {
    public var description: String { "\(code.rawValue): \(context)" }
}

/// Maps D-Bus errors to errors of this module. The meanings of BlueZ's errors come from the source of BlueZ 5.66: `src/error.c`,
/// `create_gatt_dbus_error` in `src/gatt-client.c`, and `device_bonding_failed` in `src/device.c`.
extension BlueZError {
    /// Creates the error of this module for a D-Bus error.
    ///
    /// - Parameter operation: the failed operation, for the error text, such as `connect to AA:BB:CC:DD:EE:FF`.
    package init(_ error: DBusError, _ operation: String) {
        let context = "\(operation): \(error.message.isEmpty ? error.name ?? error.code.rawValue : error.message)"
        switch error.code {
        case .remote: self = Self.remote(error.name ?? "", error.message, context)
        case .connectionFailed, .disconnected, .resourcesExhausted: self.init(.busUnavailable, context)
        case .timedOut: self.init(.timedOut, context)
        case .cancelled: self.init(.cancelled, context)
        case .invalidArguments: self.init(.invalidArguments, context)
        case .unexpectedValue: self.init(.unexpectedReply, context)
        case .socketClosed, .socketFailed: self.init(.disconnected, context)
        case .nameTaken: self.init(.failed, context)
        }
    }

    private static func remote(_ name: String, _ message: String, _ context: String) -> BlueZError {
        let bluez = "org.bluez.Error."
        if name.hasPrefix(bluez) {
            return ofBlueZ(String(name.dropFirst(bluez.count)), message, context)
        }
        // The bus has failed to start bluetoothd. The text of this error describes only the failed start, so replace the text.
        if name.hasPrefix("org.freedesktop.DBus.Error.Spawn.") {
            return BlueZError(.serviceUnavailable, "bluetoothd is not running")
        }
        let code: Code =
            switch name {
            case DBusError.Name.serviceUnknown, DBusError.Name.nameHasNoOwner, "org.freedesktop.systemd1.NoSuchUnit":
                .serviceUnavailable
            // The bus sends this error if bluetoothd exits before it has replied to the call.
            case DBusError.Name.noReply: .serviceUnavailable
            case DBusError.Name.accessDenied: .accessDenied
            case DBusError.Name.unknownObject: .noSuchObject
            // gdbus, the D-Bus library of bluetoothd, sends this error for a removed object: "Method … with signature … on interface
            // … doesn't exist".
            case DBusError.Name.unknownMethod, DBusError.Name.unknownInterface: .noSuchObject
            case DBusError.Name.invalidArguments: .invalidArguments
            default: .failed
            }
        return BlueZError(code, context)
    }

    private static func ofBlueZ(_ name: String, _ message: String, _ context: String) -> BlueZError {
        let code: Code =
            switch name {
            case "InProgress": .inProgress
            case "AlreadyExists", "AlreadyConnected": .alreadyDone
            case "NotReady": .adapterOff
            case "NotConnected": .disconnected
            case "DoesNotExist": .noSuchObject
            case "NotSupported": .notSupported
            case "InvalidArguments", "InvalidOffset": .invalidArguments
            case "InvalidValueLength": .invalidLength
            case "NotAuthorized": .notPermitted
            case "NotPermitted": notPermitted(message)
            case "ConnectionAttemptFailed": .connectionFailed
            case "AuthenticationFailed", "AuthenticationCanceled", "AuthenticationRejected", "AuthenticationTimeout":
                .pairingFailed
            default: failed(message)
            }
        if code == .invalidArguments, message == "Invalid Length" { return BlueZError(.invalidLength, context) }
        if code == .acquiredElsewhere {
            return BlueZError(code, "\(context): another program on this computer uses the characteristic")
        }
        return BlueZError(code, context, attributeError: code == .attributeError ? attributeError(in: message) : nil)
    }

    private static func notPermitted(_ message: String) -> Code {
        switch message {
        // bluetoothd sends this message for three ATT errors: 0x05 (insufficient authentication), 0x0C (insufficient
        // encryption key size) and 0x0F (insufficient encryption).
        case "Not paired": .notPaired
        case "Write acquired", "Notify acquired": .acquiredElsewhere
        default: .notPermitted
        }
    }

    private static func failed(_ message: String) -> Code {
        if attributeError(in: message) != nil { return .attributeError }
        if message == "Not connected" || message == "No ATT transport" { return .disconnected }
        if message.hasSuffix("connection-adapter-not-powered") { return .adapterOff }
        if message.hasPrefix("le-connection-") || message.hasPrefix("br-connection-") { return .connectionFailed }
        return .failed
    }

    private static func attributeError(in message: String) -> UInt8? {
        let words = "Operation failed with ATT error: 0x"
        guard message.hasPrefix(words) else { return nil }
        let digits = message.dropFirst(words.count).prefix { $0.isHexDigit }
        return UInt8(digits, radix: 16)
    }
}
