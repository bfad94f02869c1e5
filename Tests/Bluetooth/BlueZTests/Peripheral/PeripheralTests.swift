import BlueZ
import DBus
import FakeBlueZ
import Testing

/// These tests use the fake bluetoothd with a simulated central.
@Suite("Peripheral role", .enabled(if: !World.isLab, "the lab tests this role with `otaflash simulate serve`"))
struct PeripheralTests {
    private struct Unexpected: Error {
        let what: String
    }

    private static let service = BluetoothUUID(assigned: 0x180F)
    private static let level = LocalAttribute(service, BluetoothUUID(assigned: 0x2A19))
    private static let sink = LocalAttribute(service, BluetoothUUID(assigned: 0x2A9F))
    private static let streamed = LocalAttribute(service, BluetoothUUID(assigned: 0x2A1B))
    private static let offer = LocalService(
        service,
        [
            LocalCharacteristic(level.characteristic, [.read, .notify]),
            LocalCharacteristic(sink.characteristic, [.write, .writeWithoutResponse], sockets: [.write]),
            LocalCharacteristic(streamed.characteristic, [.notify], sockets: [.notify]),
        ])

    private func serve(
        _ body: @escaping @Sendable (FakeBlueZ, Peripheral, inout PeripheralEvents.Iterator) async throws -> Void
    ) async throws {
        try await World.run { world in
            let fake = try #require(world.fake)
            let client = try await BlueZClient.open(world.bus)
            try await client.withPeripheral(over: "hci0", offering: [Self.offer]) { peripheral in
                var events = peripheral.events.makeAsyncIterator()
                try await body(fake, peripheral, &events)
            }
            #expect(await fake.offeredAttributes.isEmpty)
            await client.close()
        }
    }

    /// Offers the services and runs `body` when a central is connected.
    private func serveACentral(
        _ body: @escaping @Sendable (FakeBlueZ, Peripheral, inout PeripheralEvents.Iterator) async throws -> Void
    ) async throws {
        try await serve { fake, peripheral, events in
            try await fake.centralConnects()
            guard case .connected(let connection) = try await events.next() else {
                throw Unexpected(what: "no central is connected")
            }
            #expect(connection.central.description == "00:AA:01:02:00:42")
            try await body(fake, peripheral, &events)
        }
    }

    @Test("services and an advertisement are registered, and removed at the end")
    func offersAndAdvertises() async throws {
        try await serve { fake, peripheral, _ in
            #expect(await fake.offeredAttributes == [Self.level, Self.sink, Self.streamed])
            let advertisement = Advertisement(
                serviceUUIDs: [Self.service], localName: "Lamp", manufacturerData: [0xFFFF: [1, 2]])
            try await peripheral.withAdvertisement(advertisement) {
                let properties = try #require(await fake.advertisedProperties)
                #expect(properties["Type"] == "peripheral" && properties["LocalName"] == "Lamp")
                #expect(properties["ServiceUUIDs"]?.strings == [Self.service.description])
                #expect(properties["ManufacturerData"]?.dictionary?[.uint16(0xFFFF)]?.bytes == [1, 2])
            }
            #expect(await fake.advertisedProperties == nil)
        }
    }

    @Test("only bluetoothd may call the services and the advertisement of a peripheral")
    func refusesOthers() async throws {
        try await World.run { world in
            let fake = try #require(world.fake)
            let client = try await BlueZClient.open(world.bus)
            try await client.withPeripheral(over: "hci0", offering: [Self.offer]) { peripheral in
                try await peripheral.withAdvertisement(Advertisement(serviceUUIDs: [Self.service], localName: "P")) {
                    let owner = try #require(await fake.offeringProgram)
                    try await DBusConnection.withConnection(world.bus) { stranger in
                        let root: DBusObjectPath = "/peripheral/hci0"
                        let calls: [(DBusObjectPath, String, String, [DBusValue])] = [
                            (root, BlueZName.objectManager, "GetManagedObjects", []),
                            (
                                root.appending("service0000").appending("characteristic0001"),
                                BlueZName.gattCharacteristic,
                                "WriteValue", [.bytes([1]), .properties([:])]
                            ),
                            (
                                root.appending("service0000"), BlueZName.properties, "GetAll",
                                [.string(BlueZName.gattService)]
                            ),
                            (root.appending("advertisement1"), BlueZName.advertisement, "Release", []),
                        ]
                        for (path, interface, member, arguments) in calls {
                            await #expect(throws: DBusError.remote(DBusError.Name.accessDenied, "")) {
                                try await stranger.call(owner, path, interface, member, arguments)
                            }
                        }
                    }
                    #expect(await fake.advertisedProperties != nil)
                }
            }
            await client.close()
        }
    }

    @Test("a read gets the handler's value or its error code")
    func answersReads() async throws {
        try await serveACentral { fake, _, events in
            let value = Task { try await fake.centralReads(Self.level, at: 3) }
            guard case .read(let request) = try await events.next() else { throw Unexpected(what: "no read") }
            #expect(request.attribute == Self.level && request.offset == 3)
            request.succeed(with: [87])
            #expect(try await value.value == [87])

            let refused = Task { try await fake.centralReads(Self.level) }
            guard case .read(let second) = try await events.next() else { throw Unexpected(what: "no read") }
            second.fail(with: AttributeError(code: 0x83))
            await #expect(throws: DBusError.remote("org.bluez.Error.Failed", "0x83")) { _ = try await refused.value }
        }
    }

    @Test("a request that is released without an answer gets the error unlikely")
    func answersWhatIsDropped() async throws {
        try await serveACentral { fake, _, events in
            let value = Task { try await fake.centralReads(Self.level) }
            _ = try await events.next()
            await #expect(throws: DBusError.remote("org.bluez.Error.Failed", "0xe")) { _ = try await value.value }
        }
    }

    @Test("writes arrive in order, also if they are answered in another order")
    func keepsTheOrderOfWrites() async throws {
        try await serveACentral { fake, _, events in
            let written = Task { try await fake.centralWrites((0..<100).map { [$0] }, to: Self.sink, "command") }
            var values: [[UInt8]] = []
            var requests: [WriteRequest] = []
            while values.count < 100, case .write(let request) = try await events.next() {
                values.append(request.value)
                requests.append(request)
                // The requests are answered in another order.
                if requests.count == 10 {
                    requests.reversed().forEach { $0.succeed() }
                    requests = []
                }
            }
            try await written.value
            #expect(values == (0..<100).map { [$0] })
        }
    }

    @Test("a write reports the MTU of 247, so a notification of 242 bytes arrives complete")
    func reportsTheMaximumLengthOfANotification() async throws {
        try await serveACentral { fake, _, events in
            let written = Task { try await fake.centralWrites([[1]], to: Self.sink, "request") }
            guard case .write(let request) = try await events.next() else { throw Unexpected(what: "no write") }
            #expect(request.mtu == 247 && request.maximumNotificationLength == 242)
            request.succeed()
            try await written.value
        }
    }

    @Test("without a reported MTU, the minimum MTU determines the length of a notification")
    func assumesTheMinimumMTU() async throws {
        try await serveACentral { fake, _, events in
            let socket = try await fake.centralAcquiresWriter(of: Self.sink)
            try await socket.send([[1]])
            guard case .write(let request) = try await events.next() else { throw Unexpected(what: "no write") }
            #expect(request.mtu == nil && request.maximumNotificationLength == 18)
            await socket.close()
        }
    }

    @Test("notifications arrive in order, over the bus and over a socket")
    func notifies() async throws {
        try await serveACentral { fake, peripheral, events in
            for attribute in [Self.level, Self.streamed] {
                let values = try await fake.centralSubscribes(to: attribute)
                // The end of the previous subscription may be reported first.
                var event = try await events.next()
                if case .subscribed(_, _, on: false) = event { event = try await events.next() }
                guard case .subscribed(_, attribute, on: true) = event else {
                    throw Unexpected(what: "no subscription")
                }
                for value: UInt8 in 0..<50 { peripheral.notify([value], on: attribute) }
                var heard: [[UInt8]] = []
                for await value in values.prefix(50) { heard.append(value) }
                #expect(heard == (0..<50).map { [$0] })
            }
        }
    }

    @Test("the end of a subscription is reported")
    func aSubscriptionEnds() async throws {
        try await serveACentral { fake, _, events in
            for attribute in [Self.level, Self.streamed] {
                let values = try await fake.centralSubscribes(to: attribute)
                guard case .subscribed(_, attribute, on: true) = try await events.next() else {
                    throw Unexpected(what: "no subscription")
                }
                let listening = Task { for await _ in values {} }
                listening.cancel()
                guard case .subscribed(_, attribute, on: false) = try await events.next() else {
                    throw Unexpected(what: "the subscription did not end")
                }
            }
        }
    }

    @Test("writes over a socket arrive in order")
    func takesWritesThroughASocket() async throws {
        try await serveACentral { fake, _, events in
            let socket = try await fake.centralAcquiresWriter(of: Self.sink)
            try await socket.send((0..<20).map { [$0, 1] })
            for value: UInt8 in 0..<20 {
                guard case .write(let request) = try await events.next() else { throw Unexpected(what: "no write") }
                #expect(request.attribute == Self.sink && request.value == [value, 1])
            }
            await socket.close()
        }
    }

    @Test("disconnectAll ends the connection of a central that has read a value")
    func tellsTheEndOfAConnection() async throws {
        try await serveACentral { fake, peripheral, events in
            let value = Task { try await fake.centralReads(Self.level) }
            guard case .read(let request) = try await events.next() else { throw Unexpected(what: "no read") }
            request.succeed(with: [])
            _ = try await value.value
            // disconnectAll applies only to devices that have read or written a value.
            peripheral.disconnectAll()
            guard case .disconnected(let connection) = try await events.next() else {
                throw Unexpected(what: "the central is still connected")
            }
            #expect(connection.number == 1)
        }
    }

    @Test("services and advertisement are registered again after a restart of bluetoothd")
    func isOfferedAgain() async throws {
        try await serve { fake, peripheral, _ in
            try await peripheral.withAdvertisement(Advertisement(serviceUUIDs: [Self.service])) {
                await fake.die()
                try await fake.run()
                await fake.waitForAdvertisement()
                #expect(await fake.advertisedProperties != nil)
                #expect(await fake.offeredAttributes == [Self.level, Self.sink, Self.streamed])
            }
        }
    }

    @Test("the event of a connection has the end that opened the link, and the end of the connection has the same one")
    func reportsTheOpener() async throws {
        try await World.run { world in
            let fake = try #require(world.fake)
            let client = try await BlueZClient.open(world.bus)
            for expected in [LinkOpener.central, .host, .unknown] {
                let opener: @Sendable (BluetoothAddress) -> LinkOpener = {
                    $0.description == "00:AA:01:02:00:42" ? expected : .unknown
                }
                try await client.withPeripheral(over: "hci0", offering: [Self.offer], opener: opener) { peripheral in
                    var events = peripheral.events.makeAsyncIterator()
                    try await fake.centralConnects()
                    guard case .connected(let connection) = try await events.next() else {
                        throw Unexpected(what: "no central is connected")
                    }
                    #expect(connection.opener == expected)
                    await fake.centralIsDisconnected()
                    guard case .disconnected(connection) = try await events.next() else {
                        throw Unexpected(what: "the connection has not ended")
                    }
                }
            }
            await client.close()
        }
    }
}
