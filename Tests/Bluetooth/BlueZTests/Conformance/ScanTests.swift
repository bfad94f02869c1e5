import BlueZ
import FakeBlueZ
import Testing

extension ConformanceTests {
    @Test("a scan finds the device with its name, services and signal strength")
    func findsTheDevice() async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            let devices = try await client.scan(
                for: .seconds(1), over: "hci0", filter: ScanFilter(services: [Objects.ota]))
            let device = try #require(devices.first)
            #expect(devices.count == 1)
            #expect(device.address == world.address)
            #expect(device.name == world.name)
            #expect(device.rssi == -50)
            #expect(device.serviceUUIDs.contains(Objects.ota))
            try await world.expectQuiet()
        }
    }

    @Test(
        "a scan omits devices that do not match the filter",
        arguments: [
            ScanFilter(minimumRSSI: -40), ScanFilter(name: "Nobody"),
            ScanFilter(services: [BluetoothUUID(assigned: 0x180D)]),
        ])
    func leavesOutWhatIsNotAskedFor(_ filter: ScanFilter) async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            #expect(try await client.scan(for: .milliseconds(700), filter: filter).isEmpty)
            try await world.expectQuiet()
        }
    }

    @Test("a running scan reports a new device, and it throws adapterOff when the adapter is switched off")
    func tellsWhatHappensWhileItScans() async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            try await client.withScan(for: ScanFilter(name: world.name)) { scan in
                var events = scan.makeAsyncIterator()
                guard case .appeared(let device) = try await events.next() else {
                    Issue.record("no device appeared")
                    return
                }
                #expect(device.address == world.address)
                #expect(try await world.isDiscovering)
                try await world.setPower(false)
                await #expect(throws: BlueZError(.adapterOff, "")) {
                    while try await events.next() != nil {}
                }
            }
            try await world.setPower(true)
            try await world.expectQuiet()
        }
    }

    @Test("a cancelled scan ends the discovery")
    func aCancelledScanLeavesNothing() async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            let task = Task { try await client.scan(for: .seconds(30)) }
            try await world.until("bluetoothd scans") { try await world.isDiscovering }
            task.cancel()
            await #expect(throws: BlueZError(.cancelled, "")) { try await task.value }
            try await world.expectQuiet()
        }
    }

    @Test("a scan throws serviceUnavailable when bluetoothd stops, and the client works again after its restart")
    func aScanEndsWithBluetoothd() async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            await #expect(throws: BlueZError(.serviceUnavailable, "")) {
                try await client.withScan { scan in
                    try await world.pull(.killService)
                    for try await _ in scan {}
                }
            }
            try await world.pull(.startService)
            // The same client continues to work.
            let devices = try await world.retrying { try await client.scan(for: .seconds(1)) }
            #expect(devices.map(\.address).contains(world.address))
        }
    }

    /// bluetoothd has one discovery per program, and a connection attempt pauses it.
    @Test("two scans and a connection share one adapter, and the outer scan resumes")
    func scansAndConnectionsShareTheRadio() async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            try await client.withScan { scan in
                var events = scan.makeAsyncIterator()
                _ = try await events.next()
                try await client.withScan { _ in }
                #expect(try await world.isDiscovering)
                try await client.withConnection(ConnectionRequest(.address(world.address))) { connection in
                    #expect(connection.device.address == world.address)
                    try await world.until("bluetoothd scans again") { try await world.isDiscovering }
                }
            }
            try await world.expectQuiet()
        }
    }
}
