import DBus
import Testing

@Suite("Remote D-Bus objects")
struct DBusRemoteObjectTests {
    /// Exports an object of dbus-fast with properties.
    private static let lamp = """
        class Lamp(ServiceInterface):
            def __init__(self):
                super().__init__('org.example.Lamp')
                self.level = 3

            @dbus_property()
            def Level(self) -> 'q':
                return self.level

            @Level.setter
            def Level(self, value: 'q'):
                if value > 100:
                    raise DBusError('org.example.Error.TooBright', 'no more than 100')
                self.level = value
                self.emit_properties_changed({'Level': value}, ['Colour'])

            @dbus_property(access=PropertyAccess.READ)
            def Colour(self) -> 'as':
                return ['red', 'green']

        bus.export('/lamp', Lamp())
        """

    @Test("properties of a remote object are read and set, and errors keep their names")
    func properties() async throws {
        try await Peer.run { connection, peer in
            _ = try await peer.python(Self.lamp)
            let lamp = DBusRemoteObject(connection, Peer.name, "/lamp")
            #expect(try await lamp.property("org.example.Lamp", "Level") == .uint16(3))
            try await lamp.setProperty("org.example.Lamp", "Level", .uint16(40))
            #expect(
                try await lamp.properties("org.example.Lamp") == ["Level": .uint16(40), "Colour": ["red", "green"]])
            await #expect(throws: DBusError.remote("org.example.Error.TooBright")) {
                try await lamp.setProperty("org.example.Lamp", "Level", .variant(.uint16(101)))
            }
            await #expect(throws: DBusError.remote(DBusError.Name.propertyReadOnly)) {
                try await lamp.setProperty("org.example.Lamp", "Colour", ["blue"])
            }
        }
    }

    @Test("propertyChanges reports new values and invalidated names")
    func changes() async throws {
        try await Peer.run { connection, peer in
            _ = try await peer.python(Self.lamp)
            let lamp = DBusRemoteObject(connection, Peer.name, "/lamp")
            var changes = try await lamp.propertyChanges("org.example.Lamp").makeAsyncIterator()
            for level: UInt16 in [1, 2] {
                try await lamp.setProperty("org.example.Lamp", "Level", .uint16(level))
                let change = try #require(try await changes.next())
                #expect(change.path == "/lamp")
                #expect(change.interface == "org.example.Lamp")
                #expect(change.changed == ["Level": .uint16(level)])
                #expect(change.invalidated == ["Colour"])
            }
        }
    }

    @Test("a remote object's method returns its values or times out")
    func methods() async throws {
        try await Peer.run { connection, _ in
            let peer = DBusRemoteObject(connection, Peer.name, Peer.path)
            let echoed = try await peer.call(Peer.name, "Echo", ["x"])
            #expect(echoed == ["x"])
            await #expect(throws: DBusError(.timedOut, "")) {
                try await peer.call(Peer.name, "Never", timeout: .milliseconds(1))
            }
        }
    }
}
