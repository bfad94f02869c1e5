package import DBus

/// The D-Bus names of BlueZ (BlueZ, `doc/*-api.txt`).
package enum BlueZName {
    package static let service = "org.bluez"
    package static let root: DBusObjectPath = "/"
    package static let daemon: DBusObjectPath = "/org/bluez"
    package static let adapter = "org.bluez.Adapter1"
    package static let device = "org.bluez.Device1"
    package static let gattService = "org.bluez.GattService1"
    package static let gattCharacteristic = "org.bluez.GattCharacteristic1"
    package static let agent = "org.bluez.Agent1"
    package static let agentManager = "org.bluez.AgentManager1"
    package static let objectManager = "org.freedesktop.DBus.ObjectManager"
    package static let properties = "org.freedesktop.DBus.Properties"
}
