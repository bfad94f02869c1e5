package import BlueZ
package import DBus
import Glibc
import OTAFirmware
package import OTASimulator
import Subprocess
import SystemPackage

/// A bluetoothd with an adapter `hci0`, and a device in range that has the OTA service. In a normal test run, this is the fake with a
/// virtual device. In the radio lab, it is the real bluetoothd with the lab's own peripheral. The same tests run in both.
///
/// In the lab, `RADIO_LAB_PYTHON` is set and these tests run one at a time: `scripts/test-radio conformance`.
package struct World: Sendable {
    /// An event that a test can cause.
    package enum Lever: Sendable {
        case cut, leave, comeBack, killService, startService
    }
    package struct Unprepared: Error {
        package let what: String
    }

    package let bus: DBusBus
    package let address: BluetoothAddress
    package let name: String
    package let release: FakeRelease
    /// Nil in the lab.
    package let fake: FakeBlueZ?

    /// Whether this is the radio lab.
    package static var isLab: Bool { getenv("RADIO_LAB_PYTHON") != nil }

    /// - Parameters:
    ///   - passkey: the passkey of the bond that the device requires before a write. Nil: it requires no bond.
    ///   - secondRSSI: the signal strength of the device at a second adapter, in dBm; nil: one adapter. Not possible in the lab.
    ///   - name: the name of the device. Not possible in the lab.
    ///   - device: the device; nil: a virtual device with the OTA service. Not possible in the lab.
    ///   - board: the name of the board of a device that supports SMP instead of the OTA profile. Not possible in the lab.
    @discardableResult
    package static func run<Result: Sendable>(
        passkey: UInt32? = nil, name: String = "Virtual", device given: (any SimulatedDevice)? = nil,
        board: String? = nil, imageSize: Int = 20_000,
        neighbours: [FakeBlueZ.Neighbour] = [], secondRSSI: Int16? = nil,
        _ body: @Sendable (World) async throws -> Result
    ) async throws -> Result {
        guard let version = SemanticVersion("1.1.0"), let old = SemanticVersion("1.0.0"),
            let product = ProductName("demo"),
            let address = BluetoothAddress("00:AA:01:01:00:42")
        else { throw Unprepared(what: "constants") }
        let release = try FakeRelease(bytes: imageSize, version: version, product: product)
        if isLab {
            return try await withPeripheral(passkey) {
                try await body(World(bus: .system, address: address, name: "Bumble", release: release, fake: nil))
            }
        }
        return try await PrivateBus.run { bus in
            var configuration = VirtualDeviceConfiguration(product: product, trustedKeys: [release.key])
            configuration.hardware = 2
            let device: any SimulatedDevice =
                if let given {
                    given
                } else if let board {
                    try Self.smpDevice(board, release)
                } else {
                    try VirtualDevice(configuration, version: old, securityCounter: 1)
                }
            let fake = FakeBlueZ(
                bus, device, name: name, passkey: passkey, neighbours: neighbours, secondRSSI: secondRSSI)
            try await fake.run()
            let world = World(bus: bus, address: address, name: name, release: release, fake: fake)
            do {
                let result = try await body(world)
                await fake.die()
                return result
            } catch {
                await fake.die()
                throw error
            }
        }
    }

    private static func smpDevice(_ board: String, _ release: FakeRelease) throws -> VirtualSMPDevice {
        var configuration = VirtualSMPConfiguration(trustedKeys: [release.key])
        configuration.board = board
        return try VirtualSMPDevice(configuration)
    }

    package func pull(_ lever: Lever) async throws {
        switch (lever, fake) {
        case (.cut, let fake?): await fake.cut()
        case (.leave, let fake?): await fake.setInRange(false)
        case (.comeBack, let fake?): await fake.setInRange(true)
        case (.killService, let fake?): await fake.die()
        case (.startService, let fake?): try await fake.run()
        case (.cut, nil): try await Self.type("radio-air", "cut")
        case (.leave, nil): try await Self.type("radio-air", "set", "range", "0")
        case (.comeBack, nil): try await Self.type("radio-air", "set", "range", "1")
        case (.killService, nil): try await Self.type("radio-bluetoothd", "kill")
        case (.startService, nil): try await Self.type("radio-bluetoothd", "start", "0")
        }
    }

    /// Reads a property of bluetoothd over a separate connection. Nil if it does not exist.
    package func property(_ path: DBusObjectPath, _ interface: String, _ name: String) async throws -> DBusValue? {
        try await DBusConnection.withConnection(bus) { connection in
            try? await DBusRemoteObject(connection, BlueZName.service, path).property(interface, name)
        }
    }

    package func setPower(_ isOn: Bool) async throws {
        try await DBusConnection.withConnection(bus) { connection in
            try await DBusRemoteObject(connection, BlueZName.service, FakeBlueZ.adapter).setProperty(
                BlueZName.adapter, "Powered", .boolean(isOn))
        }
    }

    package var isPowered: Bool {
        get async throws { try await property(FakeBlueZ.adapter, BlueZName.adapter, "Powered")?.boolean ?? false }
    }

    package var isConnected: Bool {
        get async throws { try await property(FakeBlueZ.device, BlueZName.device, "Connected")?.boolean ?? false }
    }

    package var isDiscovering: Bool {
        get async throws { try await property(FakeBlueZ.adapter, BlueZName.adapter, "Discovering")?.boolean ?? false }
    }

    // MARK: - The lab

    private static func type(_ words: String...) async throws {
        let result = try await Subprocess.run(
            .name(words[0]), arguments: Arguments(Array(words.dropFirst())), output: .discarded, error: .discarded)
        guard result.terminationStatus.isSuccess else { throw Unprepared(what: words.joined(separator: " ")) }
    }

    private static func withPeripheral<Result: Sendable>(
        _ passkey: UInt32?, _ body: @Sendable () async throws -> Result
    ) async throws -> Result {
        guard let python = getenv("RADIO_LAB_PYTHON").map({ String(cString: $0) }) else {
            throw Unprepared(what: "RADIO_LAB_PYTHON")
        }
        let script = getenv("RADIO_LAB_PERIPHERAL").map { String(cString: $0) } ?? "Tests/RadioLab/peripheral_bumble.py"
        let result = try await Subprocess.run(
            .path(FilePath(python)), arguments: Arguments([script] + (passkey.map { ["--passkey", "\($0)"] } ?? [])),
            input: .none, output: .sequence, error: .discarded
        ) { execution in
            defer { try? execution.send(signal: .kill) }
            for try await line in execution.standardOutput.strings() where line.contains("\"ready\"") {
                // Later output is not read. A test ends long before the pipe is full.
                return try await body()
            }
            throw Unprepared(what: "the lab's peripheral did not start")
        }
        // The peripheral is killed, and its controller keeps the link until the supervision timeout. No event reports that end.
        try await Task.sleep(for: .seconds(1))
        return result.closureResult
    }
}

extension World {
    /// A condition did not become true in time.
    package struct TimeIsUp: Error {
        package let what: String

        package init(what: String) { self.what = what }
    }

    /// Waits until the condition is true. It polls, because most conditions belong to another process that sends no event for them. On a
    /// busy machine, each poll takes longer, so the number of polls is limited, and not the time.
    package func until(_ what: String, _ condition: () async throws -> Bool) async throws {
        for _ in 0..<6_000 {
            if try await condition() { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw TimeIsUp(what: what)
    }

    /// Waits until bluetoothd tries to connect to the device, which is out of range. The real bluetoothd does not report a pending
    /// attempt, so in the lab this waits for 2 s.
    package func waitForConnectionAttempt() async throws {
        guard let fake else { return try await Task.sleep(for: .seconds(2)) }
        try await until("bluetoothd listens for the device") { await fake.isListening }
    }
}
