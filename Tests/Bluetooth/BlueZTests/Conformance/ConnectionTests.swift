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

    @Test("a connection has the device's services, characteristics and MTU")
    func readsTheTable() async throws {
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

    @Test("reads, writes and notifications reach the device, and ATT errors keep their number")
    func readsAndWritesAndHears() async throws {
        try await connect { _, _, connection in
            let version = try await connection.read(try connection.characteristic(Self.version, of: Objects.ota))
            #expect(String(decoding: version, as: UTF8.self) == "1.0.0")
            // The value is longer than one packet at the minimum MTU.
            #expect(try await connection.read(try connection.characteristic(Self.info, of: Objects.ota)).count > 22)

            let control = try connection.characteristic(Objects.control, of: Objects.ota)
            // The device refuses the write because notifications are off (docs/ota-profile.md, "Control").
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

    @Test("a socket for writes is exclusive, limits the length and is released")
    func writesThroughASocket() async throws {
        try await connect { world, _, connection in
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
            // No transfer is active, so the device drops these values without an error.
            try await writer.write((0..<100).map { [UInt8]([0, 0, $0]) })
            try await writer.waitUntilDrained()
            try await connection.release(data)
            // bluetoothd notices the closed socket a short time later.
            try await world.until("bluetoothd has released the socket") {
                (try? await connection.write([0, 0, 0], to: data)) != nil
            }
        }
    }

    // MARK: - End of a link

    @Test("a broken link ends notifications and calls with disconnected")
    func aBrokenLinkEndsAllThatWaits() async throws {
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

    @Test("a link ends with bluetoothd, and the next attempt waits for its restart")
    func bluetoothdsDeathEndsALink() async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            var request = ConnectionRequest(.address(world.address))
            // The kernel may keep the old link for a short time, and the new bluetoothd then adopts it.
            request.takesOver = true
            try await client.withConnection(request) { connection in
                try await world.pull(.killService)
                let end = try await connection.waitForEnd()
                #expect(end.reason == .serviceEnded)
                #expect(end.error == BlueZError(.serviceUnavailable, ""))
            }
            // A new attempt waits for bluetoothd.
            async let comesBack: Void = {
                // The waiting attempt is not visible from outside, so no event could replace this sleep.
                try await Task.sleep(for: .milliseconds(300))
                try await world.pull(.startService)
            }()
            try await client.withConnection(request) { #expect($0.device.address == world.address) }
            try await comesBack
            try await world.expectQuiet()
        }
    }

    @Test("a link ends when the adapter is switched off")
    func anAdapterThatIsSwitchedOffEndsALink() async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            try await client.withConnection(ConnectionRequest(.address(world.address))) { connection in
                try await world.setPower(false)
                let end = try await connection.waitForEnd()
                // bluetoothd reports the end of the link and the change of the power separately, in either order.
                #expect([.adapterOff, .unknown].contains(end.reason))
            }
            await #expect(throws: BlueZError(.adapterOff, "")) {
                try await client.withScan(over: "hci0") { _ in }
            }
            try await world.setPower(true)
            try await world.expectQuiet()
        }
    }

    @Test("a device can be connected three times in a row")
    func connectsAgainAndAgain() async throws {
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

    @Test("a second client shares a link, or takes it over on request")
    func sharesOrTakesOverALink() async throws {
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

    // MARK: - Attempts without a link

    @Test("a device that is out of range throws noSuchDevice")
    func aDeviceThatIsNotThere() async throws {
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

    @Test("a cancelled attempt leaves no link and no pending attempt")
    func aCancelledAttemptLeavesNothing() async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            let request = ConnectionRequest(.address(world.address))
            // The device is known to bluetoothd and then goes out of range, so bluetoothd listens for it.
            try await client.withConnection(request) { _ in }
            try await world.pull(.leave)
            let task = Task { try await client.withConnection(request) { _ in } }
            try await world.waitForConnectionAttempt()
            task.cancel()
            await #expect(throws: BlueZError(.cancelled, "")) { try await task.value }
            if let fake = world.fake {
                try await world.until("bluetoothd stops listening") { await !fake.isListening }
            }
            try await world.pull(.comeBack)
            // No link may appear. No event reports that nothing happens, so the test gives a wrong link time to appear.
            try await Task.sleep(for: .milliseconds(500))
            try await world.expectQuiet()
        }
    }

    @Test("a cancelled body leaves no link and no discovery")
    func aCancelledBodyLeavesNothing() async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            let (subscriptions, feed) = AsyncStream.makeStream(of: Void.self)
            let task = Task {
                defer { feed.finish() }
                try await client.withConnection(ConnectionRequest(.address(world.address))) { connection in
                    _ = try await connection.subscribe(
                        to: try connection.characteristic(Self.progress, of: Objects.ota))
                    _ = try await connection.acquireWriter(
                        of: try connection.characteristic(Self.data, of: Objects.ota))
                    feed.finish()
                    _ = try await connection.waitForEnd()
                }
            }
            for await _ in subscriptions {}
            #expect(try await world.isConnected)
            task.cancel()
            await #expect(throws: BlueZError.self) { try await task.value }
            try await world.expectQuiet()
        }
    }

    // MARK: - Pairing

    @Test("a device is paired with the right passkey")
    func pairsByAPasskey() async throws {
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
        "a pairing without a passkey is accepted, except by the responder that refuses each pairing",
        .enabled(if: !World.isLab, "the lab does not know the agent's bus name"),
        arguments: [(PairingResponder.justWorks, true), (.unattended, true), (.refusing, false)])
    func authorizesAPairing(_ responder: PairingResponder, accepts: Bool) async throws {
        try await connect(pairing: responder) { world, _, _ in
            #expect(await world.fake?.asksForAuthorization() == accepts)
        }
    }

    @Test(
        "a responder for an adapter answers the comparisons of its devices, and then the agent is gone",
        .enabled(if: !World.isLab, "the lab does not know the agent's bus name"))
    func comparesForAllDevices() async throws {
        try await connect { world, client, _ in
            let fake = try #require(world.fake)
            // An even number is confirmed.
            let responder = PairingResponder.numericComparison { device, number in
                device.address == world.address && number.isMultiple(of: 2)
            }
            try await client.withPairing(responder) {
                #expect(await fake.agentCapability == "DisplayYesNo")
                #expect(await fake.asksForConfirmation(of: 123_456))
                #expect(await !fake.asksForConfirmation(of: 123_457))
                // The pairing would not be authenticated.
                #expect(await !fake.asksForAuthorization())
            }
            #expect(await !fake.hasAgent)
            await #expect(throws: BlueZError(.noSuchAdapter, "")) {
                try await client.withPairing(over: "hci9", responder) {}
            }
        }
    }

    @Test(
        "a responder for an adapter is registered again after a restart of bluetoothd",
        .enabled(if: !World.isLab, "the lab does not know the agent's bus name"))
    func registersTheResponderAgain() async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            let fake = try #require(world.fake)
            try await client.withPairing(.numericComparison { _, _ in true }) {
                #expect(await fake.hasAgent)
                try await world.pull(.killService)
                try await world.pull(.startService)
                while await !fake.hasAgent { try await Task.sleep(for: .milliseconds(10)) }
            }
            while await fake.hasAgent { try await Task.sleep(for: .milliseconds(10)) }
        }
    }

    @Test(
        "pair(authenticated:) removes the bond with a device that has no display and no keyboard",
        .enabled(if: !World.isLab, "the lab's device requires a passkey or no bond"))
    func refusesUnauthenticatedBonds() async throws {
        for authenticated in [true, false] {
            try await World.run { world in
                let client = try await BlueZClient.open(world.bus)
                let request = ConnectionRequest(.address(world.address))
                try await client.withConnection(request, pairing: .numericComparison { _, _ in true }) { connection in
                    do throws(BlueZError) {
                        try await connection.pair(authenticated: authenticated)
                        #expect(!authenticated)
                    } catch { #expect(authenticated && error.code == .pairingFailed) }
                    let isPaired = try? await world.property(connection.device.path, BlueZName.device, "Paired")
                    #expect(isPaired?.boolean == (authenticated ? nil : true))
                }
            }
        }
    }

    @Test("pair(authenticated:) accepts a bond with a passkey")
    func acceptsAuthenticatedBonds() async throws {
        try await connect(passkey: 123_456, pairing: .passkey(123_456)) { world, client, connection in
            try await connection.pair(authenticated: true)
            let isPaired = try await world.property(connection.device.path, BlueZName.device, "Paired")
            #expect(isPaired?.boolean == true)
            try await client.removeDevice(world.address)
        }
    }

    @Test(
        "the responder of a connection has precedence over the responder of the adapter",
        .enabled(if: !World.isLab, "the lab does not know the agent's bus name"))
    func prefersTheConnection() async throws {
        try await connect(pairing: .numericComparison { _, _ in true }) { world, client, _ in
            try await client.withPairing(.numericComparison { _, _ in false }) {
                #expect(await world.fake?.asksForConfirmation(of: 1) == true)
            }
        }
    }

    @Test(
        "only bluetoothd may call the pairing agent",
        .enabled(if: !World.isLab, "the lab does not know the agent's bus name"))
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
            // The calls of the stranger have no effect: pairing still works.
            try await connection.pair()
        }
    }

    @Test(
        "a write throws pairingFailed with a wrong passkey or without an answer",
        arguments: [PairingResponder.passkey(654_321), .unattended, .refusing])
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
