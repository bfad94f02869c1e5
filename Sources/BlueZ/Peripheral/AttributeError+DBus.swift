import DBus

extension AttributeError {
    /// What BlueZ 5.66 turns into this code (`dbus_error_to_att_ecode` in `src/gatt-database.c`; each was sent and looked at
    /// from the other end). It has names for some codes and passes 0x80 to 0x9F on as numbers; a central sees all others,
    /// 0xFC and 0xFD among them, as 0x0E, "unlikely error".
    var asDBusError: DBusError {
        let (name, message) =
            switch code {
            // bluetoothd knows which of the two was asked for.
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
