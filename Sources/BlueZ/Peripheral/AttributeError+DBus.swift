import DBus

extension AttributeError {
    /// The D-Bus error that BlueZ 5.66 converts to this code (`dbus_error_to_att_ecode` in `src/gatt-database.c`). Each
    /// conversion was sent and checked on a central. BlueZ has names for some codes and transfers 0x80 to 0x9F as numbers.
    /// A central gets all other codes, including 0xFC and 0xFD, as 0x0E, "unlikely error".
    var asDBusError: DBusError {
        let (name, message) =
            switch code {
            // bluetoothd selects the code that matches the request: read or write.
            case 0x02, 0x03: ("NotPermitted", "not permitted")
            case 0x06: ("NotSupported", "not supported")
            case 0x07: ("InvalidOffset", "invalid offset")
            case 0x08: ("NotAuthorized", "not authorized")
            case 0x0D: ("InvalidValueLength", "invalid length")
            case 0xFE: ("InProgress", "in progress")
            default: ("Failed", "0x" + String(code, radix: 16))
            }
        return .remote("org.bluez.Error." + name, message)
    }
}
