import DBus
import Testing

@Suite("Managed objects of a service")
struct ManagedObjectsTests {
    /// A service of dbus-fast. dbus-fast implements GetManagedObjects and sends the signals of the exported objects.
    private static let service = """
        class Device(ServiceInterface):
            def __init__(self, number):
                super().__init__('org.example.Device')
                self.number = number

            @dbus_property()
            def RSSI(self) -> 'n':
                return self.number

            @RSSI.setter
            def RSSI(self, value: 'n'):
                self.number = value
                self.emit_properties_changed({'RSSI': value})

        scope['devices'] = [Device(number) for number in range(3)]
        for number, device in enumerate(devices):
            bus.export(f'/org/example/d{number}', device)
        await bus.request_name('org.example.Devices')
        """

    private static func device(_ rssi: Int16) -> [String: DBusValue] { ["RSSI": .int16(rssi)] }

    @Test("managedObjects reports a snapshot, each change and the loss of a service that restarts")
    func aServiceThatComesAndGoes() async throws {
        try await TestBus.withConnection { connection, bus in
            var changes = try await connection.managedObjects(of: "org.example.Devices").makeAsyncIterator()
            #expect(try await changes.next() == .serviceLost)
            for _ in 0..<2 {
                try await Peer.run(on: bus) {
                    let peer = Peer(connection: connection)
                    _ = try await peer.python(Self.service)
                    let snapshot = try #require(try await changes.next())
                    guard case .snapshot(let objects) = snapshot else {
                        Issue.record("no snapshot: \(snapshot)")
                        return
                    }
                    #expect(objects.keys.sorted() == ["/org/example/d0", "/org/example/d1", "/org/example/d2"])
                    #expect(objects["/org/example/d2"]?["org.example.Device"] == Self.device(2))

                    _ = try await peer.python(
                        """
                        devices[1].emit_properties_changed({'RSSI': -40})
                        bus.unexport('/org/example/d1')
                        bus.export('/org/example/d3', type(devices[0])(-70))
                        """)
                    guard case .changed(let change) = try await changes.next() else {
                        Issue.record("no change")
                        return
                    }
                    #expect(change.path == "/org/example/d1")
                    #expect(change.changed == Self.device(-40))
                    guard case .removed("/org/example/d1", let names) = try await changes.next() else {
                        Issue.record("not removed")
                        return
                    }
                    #expect(names.contains("org.example.Device"))
                    guard case .added("/org/example/d3", let interfaces) = try await changes.next() else {
                        Issue.record("not added")
                        return
                    }
                    #expect(interfaces["org.example.Device"] == Self.device(-70))
                }
                #expect(try await changes.next() == .serviceLost)
            }
        }
    }

    @Test("no change is lost or repeated between the snapshot and the following changes")
    func theSnapshotFitsTheChanges() async throws {
        try await TestBus.withConnection { service, bus in
            try await service.requestName("org.example.Counter")
            try await service.export("/", managesObjects: true)
            let interface = DBusInterface(
                "org.example.Count", properties: [DBusProperty("Number", .int32(0)) { _ in }])
            try await service.export("/count", [interface])
            let counting = Task {
                for number in Int32(1)...2000 {
                    try await service.update("/count", "org.example.Count", ["Number": .int32(number)])
                }
            }
            try await DBusConnection.withConnection(.address(bus.address)) { client in
                // The client starts to follow five times, at different counts.
                for _ in 0..<5 {
                    var number: Int?
                    for try await change in try await client.managedObjects(of: "org.example.Counter") {
                        if case .snapshot(let objects) = change {
                            number = objects["/count"]?["org.example.Count"]?["Number"]?.integer
                        } else if case .changed(let change) = change {
                            #expect(change.changed["Number"]?.integer == number.map { $0 + 1 })
                            number = change.changed["Number"]?.integer
                        }
                        let reached = try #require(number)
                        if reached == 2000 || reached % 100 == 99 { break }
                    }
                }
            }
            try await counting.value
        }
    }

    @Test("managedObjects throws UnknownObject for a service without an ObjectManager")
    func aServiceWithoutObjects() async throws {
        try await TestBus.withConnection { connection, bus in
            try await connection.requestName("org.example.Plain")
            var changes = try await connection.managedObjects(of: "org.example.Plain").makeAsyncIterator()
            await #expect(throws: DBusError.remote(DBusError.Name.unknownObject)) { try await changes.next() }
        }
    }
}
