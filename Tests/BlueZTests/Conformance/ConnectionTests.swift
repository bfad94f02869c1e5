import BlueZ
import DBus
import FakeBlueZ
import Testing

extension ConformanceTests {
    private static let info = BluetoothUUID(0xc7e1_0002_63a0_486d_9bcb_a18d_79d9_acd9)
    private static let data = BluetoothUUID(0xc7e1_0004_63a0_486d_9bcb_a18d_79d9_acd9)
    private static let progress = BluetoothUUID(0xc7e1_0005_63a0_486d_9bcb_a18d_79d9_acd9)
    private static let version = BluetoothUUID(0xc7e1_0006_63a0_486d_9bcb_a18d_79d9_acd9)

    private func connect<Result: Sendable>(
        passkey: UInt32? = nil, pairing: PairingResponder? = nil,
        _ body: @Sendable (World, BlueZClient, DeviceConnection) async throws -> Result
    ) async throws -> Result {
        try await World.run(passkey: passkey) { world in
            let client = try await BlueZClient.open(world.bus)
            let result = try await client.withConnection(
                ConnectionRequest(.address(world.address), services: [Objects.ota]), pairing: pairing
            ) { connection in
                try await body(world, client, connection)
            }
            try await world.expectQuiet()
            return result
        }
    }

    @Test func readsTheTable() async throws {
        try await connect { world, _, connection in
            #expect(connection.device.address == world.address)
            #expect(!connection.isShared)
            #expect(connection.mtu > 200)
            let operations = [
                Self.info: [GATTCharacteristic.Operation.read], Objects.control: [.write, .notify],
                Self.data: [.writeWithoutResponse, .write], Self.progress: [.read, .notify], Self.version: [.read],
            ]
            for (uuid, expected) in operations {
                let characteristic = try connection.characteristic(uuid, of: Objects.ota)
                #expect(characteristic.operations == Set(expected))
            }
            #expect(throws: BlueZError(.noSuchObject, "")) {
                try connection.characteristic(Self.info, of: BluetoothUUID(assigned: 0x180F))
            }
        }
    }

    @Test func readsAndWritesAndHears() async throws {
        try await connect { _, _, connection in
            let version = try await connection.read(try connection.characteristic(Self.version, of: Objects.ota))
            #expect(String(decoding: version, as: UTF8.self) == "1.0.0")
            // Longer than one packet at the smallest MTU.
            #expect(try await connection.read(try connection.characteristic(Self.info, of: Objects.ota)).count > 22)

            let control = try connection.characteristic(Objects.control, of: Objects.ota)
            // The device's own error: notifications are off (docs/ota-profile.md, "Control").
            await #expect(throws: BlueZError(.attributeError, "", attributeError: 0xFD)) {
                try await connection.write([7, 1, 0], to: control)
            }
            let notifications = try await connection.subscribe(to: control)
            // IDENTIFY for 0 s, twice.
            for tag: UInt8 in [5, 6] {
                try await connection.write([7, tag, 0], to: control)
                var iterator = notifications.makeAsyncIterator()
                #expect(await iterator.next() == [0x87, tag, 0])
            }
            await #expect(throws: BlueZError(.notSupported, "")) {
                _ = try await connection.acquireWriter(of: control)
            }
        }
    }

    @Test func writesThroughASocket() async throws {
        try await connect { _, _, connection in
            let data = try connection.characteristic(Self.data, of: Objects.ota)
            let writer = try await connection.acquireWriter(of: data)
            #expect(writer.maximumLength == min(connection.mtu - 3, 512))
            await #expect(throws: BlueZError(.acquiredElsewhere, "")) {
                try await connection.write([0, 0, 0], to: data)
            }
            await #expect(throws: BlueZError(.acquiredElsewhere, "")) {
                _ = try await connection.acquireWriter(of: data)
            }
            await #expect(throws: BlueZError(.invalidLength, "")) {
                try await writer.write([[UInt8](repeating: 0, count: writer.maximumLength + 1)])
            }
            // No object is open: the device drops them in silence.
            try await writer.write((0..<100).map { [UInt8]([0, 0, $0]) })
            try await writer.waitUntilDrained()
            try await connection.release(data)
            // bluetoothd hears of the closed socket a moment later.
            var isFree = false
            for _ in 0..<100 where !isFree {
                isFree = (try? await connection.write([0, 0, 0], to: data)) != nil
                if !isFree { try await Task.sleep(for: .milliseconds(10)) }
            }
            #expect(isFree)
        }
    }

    // MARK: Its end

    @Test func aBrokenLinkEndsAllThatWaits() async throws {
        try await connect { world, _, connection in
            let control = try connection.characteristic(Objects.control, of: Objects.ota)
            let notifications = try await connection.subscribe(to: control)
            try await world.pull(.cut)
            for await _ in notifications {}
            let end = try await connection.waitForEnd()
            #expect(end.error == BlueZError(.disconnected, ""))
            #expect(end.reason == .unknown)
            await #expect(throws: BlueZError(.disconnected, "")) { try await connection.write([7, 1, 0], to: control) }
        }
    }

    @Test func bluetoothdsDeathEndsALink() async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            var request = ConnectionRequest(.address(world.address))
            // The kernel may hold the old link a little longer, and the new bluetoothd takes it up.
            request.takesOver = true
            try await client.withConnection(request) { connection in
                try await world.pull(.killService)
                let end = try await connection.waitForEnd()
                #expect(end.reason == .serviceEnded)
                #expect(end.error == BlueZError(.serviceUnavailable, ""))
            }
            // A new attempt waits for it.
            async let comesBack: Void = {
                try await Task.sleep(for: .milliseconds(300))
                try await world.pull(.startService)
            }()
            try await client.withConnection(request) { #expect($0.device.address == world.address) }
            try await comesBack
            try await world.expectQuiet()
        }
    }

    @Test func anAdapterThatIsSwitchedOffEndsALink() async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            try await client.withConnection(ConnectionRequest(.address(world.address))) { connection in
                try await world.setPower(false)
                let end = try await connection.waitForEnd()
                // The end of the link and that of the power are told apart, one after the other.
                #expect([.adapterOff, .unknown].contains(end.reason))
            }
            await #expect(throws: BlueZError(.adapterOff, "")) {
                try await client.withScan(over: "hci0") { _ in }
            }
            try await world.setPower(true)
            try await world.expectQuiet()
        }
    }

    @Test func connectsAgainAndAgain() async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            for _ in 0..<3 {
                try await client.withConnection(ConnectionRequest(.name(world.name), services: [Objects.ota])) {
                    #expect($0.services.map(\.uuid).contains(Objects.ota))
                }
            }
            try await world.expectQuiet()
        }
    }

    @Test func sharesOrTakesOverALink() async throws {
        try await connect { world, _, connection in
            let other = try await BlueZClient.open(world.bus)
            var request = ConnectionRequest(.address(world.address))
            try await other.withConnection(request) { shared in
                #expect(shared.isShared)
                let version = try shared.characteristic(Self.version, of: Objects.ota)
                #expect(try await !shared.read(version).isEmpty)
            }
            #expect(await connection.ended == nil)
            request.takesOver = true
            try await other.withConnection(request) { taken in
                #expect(!taken.isShared)
                _ = try await connection.waitForEnd()
            }
        }
    }

    // MARK: No link

    @Test func aDeviceThatIsNotThere() async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            var request = ConnectionRequest(.address(try #require(BluetoothAddress("00:AA:01:09:00:42"))))
            request.limit = .seconds(2)
            await #expect(throws: BlueZError(.noSuchDevice, "")) {
                try await client.withConnection(request) { _ in }
            }
            try await world.expectQuiet()
        }
    }

    @Test func aCancelledAttemptLeavesNothing() async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            let request = ConnectionRequest(.address(world.address))
            // Known, and then out of reach: bluetoothd listens for it.
            try await client.withConnection(request) { _ in }
            try await world.pull(.leave)
            let task = Task { try await client.withConnection(request) { _ in } }
            if let fake = world.fake {
                try await world.until("it listens") { await fake.isListening }
            } else {
                try await Task.sleep(for: .milliseconds(700))
            }
            task.cancel()
            await #expect(throws: BlueZError(.cancelled, "")) { try await task.value }
            if let fake = world.fake {
                try await world.until("nobody listens") { await !fake.isListening }
            }
            try await world.pull(.comeBack)
            try await Task.sleep(for: .milliseconds(500))
            try await world.expectQuiet()
        }
    }

    @Test func aCancelledBodyLeavesNothing() async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            let task = Task {
                try await client.withConnection(ConnectionRequest(.address(world.address))) { connection in
                    _ = try await connection.subscribe(
                        to: try connection.characteristic(Self.progress, of: Objects.ota))
                    _ = try await connection.acquireWriter(
                        of: try connection.characteristic(Self.data, of: Objects.ota))
                    _ = try await connection.waitForEnd()
                }
            }
            try await world.until("it is connected") { try await world.isConnected }
            try await Task.sleep(for: .milliseconds(500))
            task.cancel()
            await #expect(throws: BlueZError.self) { try await task.value }
            try await world.expectQuiet()
        }
    }

    // MARK: Pairing

    @Test func pairsByAPasskey() async throws {
        try await connect(passkey: 123_456, pairing: .passkey(123_456)) { world, client, connection in
            let control = try connection.characteristic(Objects.control, of: Objects.ota)
            let notifications = try await connection.subscribe(to: control)
            try await connection.write([7, 1, 0], to: control)
            var iterator = notifications.makeAsyncIterator()
            #expect(await iterator.next() == [0x87, 1, 0])
            try await connection.pair()
            let isPaired = try await world.property(connection.device.path, BlueZName.device, "Paired")
            #expect(isPaired?.boolean == true)
            try await client.removeDevice(world.address)
        }
    }

    @Test(
        "the pairing agent answers bluetoothd alone",
        .enabled(if: !World.isLab, "the agent of the lab is not known by name"))
    func theAgentRefusesOthers() async throws {
        try await connect(passkey: 123_456, pairing: .passkey(123_456)) { world, _, connection in
            let agent = try #require(await world.fake?.agentObject)
            try await DBusConnection.withConnection(world.bus) { stranger in
                for (member, arguments) in [
                    ("RequestPasskey", [.objectPath(connection.device.path)]),
                    ("RequestAuthorization", [.objectPath(connection.device.path)]), ("Cancel", []), ("Release", []),
                ] as [(String, [DBusValue])] {
                    await #expect(throws: DBusError.remote(DBusError.Name.accessDenied, "")) {
                        try await stranger.call(agent.owner, agent.path, BlueZName.agent, member, arguments)
                    }
                }
            }
            // It still pairs.
            try await connection.pair()
        }
    }

    @Test(arguments: [PairingResponder.passkey(654_321), .unattended])
    func saysWhenPairingCameToNothing(_ responder: PairingResponder) async throws {
        try await connect(passkey: 123_456, pairing: responder) { _, _, connection in
            let control = try connection.characteristic(Objects.control, of: Objects.ota)
            _ = try await connection.subscribe(to: control)
            await #expect(throws: BlueZError(.pairingFailed, "")) {
                try await connection.write([7, 1, 0], to: control)
            }
        }
    }
}
