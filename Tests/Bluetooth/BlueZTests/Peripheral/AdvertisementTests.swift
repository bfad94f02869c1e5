import BlueZ
import DBus
import FakeBlueZ
import Testing

@Suite("Advertisement", .enabled(if: !World.isLab, "the lab's cases of ble-beacon test advertisements"))
struct AdvertisementTests {
    private static let service = LocalService(
        BluetoothUUID(assigned: 0x180F), [LocalCharacteristic(BluetoothUUID(assigned: 0x2A19), [.read])])
    private static let old = Advertisement(serviceUUIDs: [], manufacturerData: [0xFFFF: [1]])
    private static let new = Advertisement(
        serviceUUIDs: [], manufacturerData: [0xFFFF: [2]], interval: .milliseconds(100)...(.milliseconds(200)))

    /// Advertises `old` over a fake bluetoothd.
    private func advertise(
        _ body: @escaping @Sendable (FakeBlueZ, Peripheral, ActiveAdvertisement) async throws -> Void
    ) async throws {
        try await World.run { world in
            let fake = try #require(world.fake)
            let client = try await BlueZClient.open(world.bus)
            try await client.withPeripheral(over: "hci0", offering: [Self.service]) { peripheral in
                try await peripheral.withAdvertisement(Self.old) { try await body(fake, peripheral, $0) }
                #expect(await fake.advertisedProperties == nil)
            }
            await client.close()
        }
    }

    private func data(_ fake: FakeBlueZ) async -> [UInt8]? {
        await fake.advertisedProperties?["ManufacturerData"]?.dictionary?[.uint16(0xFFFF)]?.bytes
    }

    /// `doc/advertising-api.txt` of BlueZ 5.66 has the names and the types of the properties.
    @Test("interval and transmit power have the types that BlueZ expects, and are absent by default")
    func intervalAndPower() async throws {
        try await advertise { fake, _, advertising in
            let names: Set = ["MinInterval", "MaxInterval", "TxPower"]
            #expect(names.isDisjoint(with: try #require(await fake.advertisedProperties).keys))

            var advertisement = Self.new
            advertisement.interval = .microseconds(20_400)...(.seconds(10) + .microseconds(240_500))
            advertisement.transmitPower = -23
            try await advertising.change(to: advertisement)
            let properties = try #require(await fake.advertisedProperties)
            #expect(properties["MinInterval"] == .uint32(20))
            #expect(properties["MaxInterval"] == .uint32(10_241))
            #expect(properties["TxPower"] == .int16(-23))
        }
    }

    @Test("numbers that BlueZ's types cannot represent do not trap")
    func extremeNumbers() async throws {
        try await advertise { fake, _, advertising in
            var advertisement = Self.new
            advertisement.interval = .seconds(-1)...(.seconds(Int64.max))
            advertisement.transmitPower = .max
            try await advertising.change(to: advertisement)
            let properties = try #require(await fake.advertisedProperties)
            #expect(properties["MinInterval"] == .uint32(0) && properties["MaxInterval"] == .uint32(.max))
            #expect(properties["TxPower"] == .int16(.max))
        }
    }

    @Test("a changed advertisement replaces the old one, also while a central is connected")
    func changes() async throws {
        try await advertise { fake, peripheral, advertising in
            try await fake.centralConnects()
            var events = peripheral.events.makeAsyncIterator()
            guard case .connected = try await events.next() else { throw World.TimeIsUp(what: "a connection") }
            try await advertising.change(to: Self.new)
            #expect(await data(fake) == [2])
            #expect(await fake.advertisedProperties?["MinInterval"] == .uint32(100))
            await fake.centralIsDisconnected()
            guard case .disconnected = try await events.next() else {
                throw World.TimeIsUp(what: "no second connection")
            }
        }
    }

    @Test("the old advertisement continues if bluetoothd refuses the change")
    func refusedChange() async throws {
        try await advertise { fake, _, advertising in
            await fake.adjust { $0.advertisementErrors = [.remote("org.bluez.Error.InvalidLength", "too long")] }
            await #expect(throws: BlueZError(.failed, "")) { try await advertising.change(to: Self.new) }
            #expect(await data(fake) == [1])
            try await advertising.change(to: Self.new)
            #expect(await data(fake) == [2])
        }
    }

    @Test("after a change and its reversal have failed, a change to the old data advertises it again")
    func repeatedChange() async throws {
        try await advertise { fake, _, advertising in
            let refusal = DBusError.remote("org.bluez.Error.Failed", "refused")
            await fake.adjust { $0.advertisementErrors = [refusal, refusal] }
            await #expect(throws: BlueZError(.failed, "")) { try await advertising.change(to: Self.new) }
            #expect(await data(fake) == nil)
            try await advertising.change(to: Self.old)
            #expect(await data(fake) == [1])
        }
    }

    @Test("a change during a stop of bluetoothd takes effect after the restart")
    func changeWithoutBluetoothd() async throws {
        try await advertise { fake, _, advertising in
            await fake.die()
            try await advertising.change(to: Self.new)
            try await fake.run()
            await fake.waitForAdvertisement()
            #expect(await data(fake) == [2])
        }
    }

    @Test("a change completes in a cancelled task")
    func changeInACancelledTask() async throws {
        try await advertise { fake, _, advertising in
            let task = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                try await advertising.change(to: Self.new)
            }
            try await task.value
            #expect(await data(fake) == [2])
        }
    }

    @Test("an advertisement that has ended cannot be changed")
    func changeAfterTheEnd() async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            try await client.withPeripheral(over: "hci0", offering: [Self.service]) { peripheral in
                let ended = try await peripheral.withAdvertisement(Self.old) { $0 }
                await #expect(throws: BlueZError(.noSuchObject, "")) { try await ended.change(to: Self.new) }
                #expect(await world.fake?.advertisedProperties == nil)
            }
            await client.close()
        }
    }
}
