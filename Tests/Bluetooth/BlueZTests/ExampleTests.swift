import BlueZ
import DBus
import FakeBlueZ
import Glibc
import OTATestSupport
import Subprocess
import SystemPackage
import Testing

/// Runs the program of Examples/Sources/bluez-explore as a user would.
@Suite(
    "The example bluez-explore",
    .enabled(if: !World.isLab, "the example uses the bus of the environment and the first adapter"))
struct ExampleTests {
    private func run(_ words: [String], in world: World) async throws -> String {
        guard case .address(let address) = world.bus else { return "" }
        var buffer = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/self/exe", &buffer, buffer.count)
        let tests = FilePath(
            String(decoding: buffer.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self))
        let example = try await Command.run(
            tests.removingLastComponent().appending("bluez-explore").string, words,
            environment: .inherit.updating(["DBUS_SYSTEM_BUS_ADDRESS": address]))
        #expect(example.succeeded)
        return example.outputText
    }

    @Test("the example lists the devices in range")
    func listsDevices() async throws {
        try await World.run { world in
            let lines = try await run([], in: world)
            #expect(lines == "00:AA:01:01:00:42 -50 dBm Virtual\n")
        }
    }

    @Test("a hostile name does not control the terminal of the example")
    func hostileName() async throws {
        let evil = FakeBlueZ.Neighbour("00:AA:01:07:00:42", "a\u{1B}]0;t\u{7}\nb\u{202E}\u{9B}31m", rssi: -90)
        try await World.run(neighbours: [evil]) { world in
            let lines = try await run([], in: world).split(separator: "\n")
            #expect(lines.last == "00:AA:01:07:00:42 -90 dBm a\\u{1B}]0;t\\u{07}\\nb\\u{202E}\\u{009B}31m", "\(lines)")
        }
    }

    @Test("the example shows the attributes of a device")
    func showsADevice() async throws {
        try await World.run { world in
            let lines = try await run([world.address.description], in: world).split(separator: "\n").map { String($0) }
            #expect(lines.first == "Virtual MTU 247")
            #expect(lines.contains("  c7e10006-63a0-486d-9bcb-a18d79d9acd9 \"1.0.0\""))
            #expect(lines.contains("  c7e10003-63a0-486d-9bcb-a18d79d9acd9 notify, write"))
        }
    }
}
