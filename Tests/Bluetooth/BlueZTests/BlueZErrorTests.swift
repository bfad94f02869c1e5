import BlueZ
import DBus
import Testing

/// The D-Bus names and messages are those of BlueZ 5.66 (`src/error.c`, `src/gatt-client.c`, `src/device.c`) and of the bus.
@Suite("Mapping of D-Bus errors")
struct BlueZErrorTests {
    @Test(
        "each D-Bus error of BlueZ has its code, and the text stays in the context",
        arguments: [
            ("org.bluez.Error.InProgress", "Operation already in progress", BlueZError.Code.inProgress),
            ("org.bluez.Error.NotReady", "Resource Not Ready", .adapterOff),
            ("org.bluez.Error.NotReady", "br-connection-adapter-not-powered", .adapterOff),
            ("org.bluez.Error.NotConnected", "Not Connected", .disconnected),
            ("org.bluez.Error.DoesNotExist", "Does Not Exist", .noSuchObject),
            ("org.bluez.Error.AlreadyExists", "Already Exists", .alreadyDone),
            ("org.bluez.Error.AlreadyConnected", "Already Connected", .alreadyDone),
            ("org.bluez.Error.NotSupported", "Operation is not supported", .notSupported),
            ("org.bluez.Error.InvalidArguments", "Invalid arguments in method call", .invalidArguments),
            ("org.bluez.Error.InvalidArguments", "Invalid offset", .invalidArguments),
            ("org.bluez.Error.InvalidArguments", "Invalid Length", .invalidLength),
            ("org.bluez.Error.NotAuthorized", "Operation Not Authorized", .notPermitted),
            ("org.bluez.Error.NotPermitted", "Read not permitted", .notPermitted),
            ("org.bluez.Error.NotPermitted", "Not paired", .notPaired),
            ("org.bluez.Error.NotPermitted", "Write acquired", .acquiredElsewhere),
            ("org.bluez.Error.NotPermitted", "Notify acquired", .acquiredElsewhere),
            ("org.bluez.Error.AuthenticationFailed", "Authentication Failed", .pairingFailed),
            ("org.bluez.Error.AuthenticationCanceled", "Authentication Canceled", .pairingFailed),
            ("org.bluez.Error.AuthenticationRejected", "Authentication Rejected", .pairingFailed),
            ("org.bluez.Error.AuthenticationTimeout", "Authentication Timeout", .pairingFailed),
            ("org.bluez.Error.ConnectionAttemptFailed", "Page Timeout", .connectionFailed),
            ("org.bluez.Error.Failed", "le-connection-abort-by-local", .connectionFailed),
            ("org.bluez.Error.Failed", "br-connection-canceled", .connectionFailed),
            ("org.bluez.Error.Failed", "le-connection-adapter-not-powered", .adapterOff),
            ("org.bluez.Error.Failed", "Input/output error", .failed),
            ("org.bluez.Error.Failed", "Not connected", .disconnected),
            ("org.bluez.Error.Failed", "Operation failed with ATT error", .failed),
            ("org.bluez.Error.Failed", "Operation failed with ATT error: 0x", .failed),
            ("org.bluez.Error.Failed", "Operation failed with ATT error: 0x1ff", .failed),
            ("org.bluez.Error.SomethingNew", "?", .failed),
            ("org.freedesktop.DBus.Error.ServiceUnknown", "The name org.bluez was not provided", .serviceUnavailable),
            ("org.freedesktop.DBus.Error.NoReply", "Message recipient disconnected", .serviceUnavailable),
            ("org.freedesktop.DBus.Error.AccessDenied", "Rejected send message", .accessDenied),
            ("org.freedesktop.DBus.Error.UnknownObject", "Method \"Connect\" with signature \"\"", .noSuchObject),
            ("org.freedesktop.DBus.Error.UnknownMethod", "Method \"Connect\" with signature \"\"", .noSuchObject),
            ("com.example.Error", "?", .failed),
        ])
    func understandsWhatBlueZSays(_ name: String, _ message: String, _ code: BlueZError.Code) {
        let error = BlueZError(.remote(name, message), "try")
        #expect(error.code == code)
        #expect(error.context.hasPrefix("try: \(message)"))
        #expect(error.attributeError == nil)
    }

    @Test("an ATT error keeps its number")
    func keepsTheAttributeError() {
        let error = BlueZError(.remote("org.bluez.Error.Failed", "Operation failed with ATT error: 0xfd"), "write")
        #expect(error == BlueZError(.attributeError, "", attributeError: 0xFD))
        #expect(error != BlueZError(.attributeError, "", attributeError: 0x0E))
    }

    @Test(
        "each error of the bus connection has its code",
        arguments: [
            (DBusError.Code.disconnected, BlueZError.Code.busUnavailable), (.connectionFailed, .busUnavailable),
            (.timedOut, .timedOut), (.cancelled, .cancelled), (.unexpectedValue, .unexpectedReply),
            (.socketClosed, .disconnected), (.invalidArguments, .invalidArguments),
        ])
    func understandsTheBus(_ bus: DBusError.Code, _ code: BlueZError.Code) {
        #expect(BlueZError(DBusError(bus, "it"), "try").code == code)
    }
}
