import DBus
import Testing

@Suite("D-Bus object paths")
struct DBusObjectPathTests {
    @Test("parent, lastElement and appending split and extend a path")
    func partsOfAPath() {
        let adapter: DBusObjectPath = "/org/bluez/hci0"
        #expect(adapter.parent == "/org/bluez")
        #expect(adapter.lastElement == "hci0")
        #expect(DBusObjectPath("/org").parent == .root)
        #expect(DBusObjectPath.root.parent == nil)
        #expect(adapter.appending("dev_1") == "/org/bluez/hci0/dev_1")
        #expect(DBusObjectPath.root.appending("org") == "/org")
    }

    @Test("isDescendant is true only for paths below the given path")
    func whatIsBeneathWhat() {
        let adapter: DBusObjectPath = "/org/bluez/hci0"
        #expect(adapter.isDescendant(of: "/org"))
        #expect(adapter.isDescendant(of: .root))
        #expect(!adapter.isDescendant(of: adapter))
        #expect(!adapter.isDescendant(of: "/org/bluez/hci"))
        #expect(!DBusObjectPath.root.isDescendant(of: .root))
    }
}
