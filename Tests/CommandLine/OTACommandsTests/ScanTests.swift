import FakeBlueZ
import Subprocess
import Testing

@Suite("Command scan with a fake bluetoothd") struct ScanTests {
    private static let far = FakeBlueZ.Neighbour(
        "00:AA:01:07:00:42", "Hall", services: ["c7e10001-63a0-486d-9bcb-a18d79d9acd9"], rssi: -90)
    private static let stranger = FakeBlueZ.Neighbour("00:AA:01:08:00:42", "Radio", rssi: -40)

    private func scan(_ options: String...) async throws -> [JSONValue] {
        try await World.run(neighbours: [Self.far, Self.stranger]) { world in
            let run = try await Sandbox().run(
                ["scan", "--timeout", "1.5", "--format", "json"] + options, env: Sandbox.environment(of: world))
            #expect(run.exit == 0, "\(run.err)")
            #expect(try await !world.isDiscovering)
            return try #require(try run.json().devices?.array)
        }
    }

    @Test("scan lists the devices by signal strength, with product and version")
    func theNearestFirst() async throws {
        let devices = try await scan()
        #expect(devices.map { $0.name?.string } == ["Virtual", "Hall"])
        let first = try #require(devices.first)
        #expect(first.address?.string == "ble:00:AA:01:01:00:42")
        #expect(first.product?.string == "demo" && first.version?.string == "1.0.0")
        #expect(first.protocols?.array?.map(\.string) == ["ota"])
        // This device only advertises, so the scan cannot read its product.
        #expect(devices.last?.rssi?.number == -90 && devices.last?.product == nil)
    }

    @Test("scan --rssi hides devices with a weaker signal")
    func aProximityGate() async throws {
        #expect(try await scan("--rssi", "-80").map { $0.name?.string } == ["Virtual"])
        #expect(try await scan("--rssi=-10").isEmpty)
    }

    /// One neighbour has the OTA profile, the other is an MCUmgr server.
    @Test(
        "scan --protocol lists only the devices with this protocol",
        arguments: [
            ([], ["Virtual", "Sensor", "Hall"]), (["--protocol", "ota"], ["Virtual", "Hall"]),
            (["--protocol=smp"], ["Sensor"]),
        ] as [([String], [String])])
    func aProtocol(options: [String], names: [String]) async throws {
        let sensor = FakeBlueZ.Neighbour(
            "00:AA:01:09:00:42", "Sensor", services: ["8d53dc1d-1db7-4cd3-868b-8a527460aa84"], rssi: -70)
        try await World.run(neighbours: [Self.far, sensor]) { world in
            let run = try await Sandbox().run(
                ["scan", "--timeout", "1.5", "--format", "json"] + options, env: Sandbox.environment(of: world))
            #expect(run.exit == 0, "\(run.err)")
            let devices = try #require(try run.json().devices?.array)
            #expect(devices.map { $0.name?.string } == names)
            let found = try #require(devices.first { $0.name?.string == names.last })
            #expect(found.protocols?.array?.map(\.string) == [names == ["Sensor"] ? "smp" : "ota"])
            guard let sensor = devices.first(where: { $0.name?.string == "Sensor" }) else { return }
            #expect(sensor.version == nil && sensor.unread?.string?.isEmpty == false)
        }
    }

    @Test("scan --name lists only the device with this name")
    func aName() async throws {
        let devices = try await scan("--name", "Hall", "--no-read")
        #expect(devices.map { $0.name?.string } == ["Hall"])
    }

    /// bluetoothd reports the name in the GAP service after the scan connects to the device.
    @Test(
        "scan shows the advertised name although the GAP service has another one",
        arguments: [[], ["--name", "Virtual"]])
    func anotherNameInTheGAPService(options: [String]) async throws {
        try await World.run { world in
            await world.fake?.adjust { $0.nameInService = "nRF5x" }
            let run = try await Sandbox().run(
                ["scan", "--timeout", "1.5", "--format", "json"] + options, env: Sandbox.environment(of: world))
            let device = try #require(try run.json().devices?.array?.first)
            #expect(device.name?.string == "Virtual" && device.version?.string == "1.0.0")
        }
    }

    @Test("scan --all lists every advertising device, and --no-read reads no product")
    func allThereAre() async throws {
        let devices = try await scan("--all", "--no-read")
        #expect(Set(devices.map { $0.name?.string }) == ["Radio", "Virtual", "Hall"])
        #expect(devices.first?.protocols?.array?.isEmpty == true)
        #expect(devices.allSatisfy { $0.product == nil })
    }

    @Test("scan on a terminal shows a live table and ends with the final table")
    func onATerminalATable() async throws {
        try await World.run { world in
            let (status, screen) = try await Sandbox().onTerminal(
                "scan", "--timeout", "1.5", env: Sandbox.environment(of: world))
            #expect(status == .exited(0))
            #expect(screen.contains("Scanning"))
            // The final table follows the last erase sequence.
            let rest = try #require(screen.components(after: "\u{1B}[J").last)
            #expect(rest.contains("NAME") && rest.contains("Virtual") && !rest.contains("Scanning"))
        }
    }

    @Test("scan without a matching device exits with 0 and reports it")
    func nobodyThere() async throws {
        try await World.run { world in
            let run = try await Sandbox().run("scan", "--timeout", "0.5", "--name", "Nobody", in: world)
            #expect(run.exit == 0)
            #expect(run.out == "No updatable device in range.\n")
        }
    }
}

extension String {
    fileprivate func components(after separator: String) -> [String] {
        var parts = [""]
        var rest = self[...]
        while !rest.isEmpty {
            if rest.hasPrefix(separator) {
                parts.append("")
                rest = rest.dropFirst(separator.count)
            } else {
                parts[parts.count - 1].append(rest.removeFirst())
            }
        }
        return parts
    }
}
