import BlueZ
import DBus
import FakeBlueZ
import OTAEngine
import OTALinks
import OTAUpdate
import Testing

/// The features by which a scan finds another program of a device.
@Suite("A scan for the programs of a device") struct ProgramScanTests {
    private static func device(_ address: String, name: String? = nil) throws -> BluetoothDevice {
        let adapter: DBusObjectPath = "/org/bluez/hci0"
        let path = adapter.appending("dev_" + address.split(separator: ":").joined(separator: "_"))
        var properties: [String: DBusValue] = [
            "Adapter": .objectPath(adapter), "Address": .string(address), "AddressType": .string("random"),
            "Paired": .boolean(false), "Connected": .boolean(false), "RSSI": .int16(-50),
        ]
        if let name { properties["Name"] = .string(name) }
        var tree = BlueZObjectTree()
        _ = tree.apply(.snapshot([:]))
        #expect(tree.apply(.added(path, ["org.bluez.Device1": properties])).isEmpty)
        return try #require(tree.devices[path])
    }

    private static func scan(_ address: String) throws -> ProgramScan {
        ProgramScan(try #require(BluetoothAddress(address)))
    }

    @Test("the address of the device and the name of its other program are found, and no neighbouring address")
    func features() throws {
        let scan = try Self.scan("C0:00:00:00:00:FF")
        #expect(scan.fits(try Self.device("C0:00:00:00:00:FF")))
        #expect(scan.fits(try Self.device("D0:11:22:33:44:55", name: scan.name)))
        #expect(!scan.fits(try Self.device("C0:00:00:00:00:FE")))
        #expect(!scan.fits(try Self.device("C0:00:00:00:01:00")))
        #expect(!scan.fits(try Self.device("D0:11:22:33:44:55", name: "FL_12345")))
    }

    @Test("the name of the other program contains the whole address and fits in 16 bytes")
    func names() throws {
        #expect(try Self.scan("00:00:00:00:00:00").name == "FL_0000000000")
        #expect(try Self.scan("00:00:00:00:00:01").name == "FL_1000000000")
        #expect(try Self.scan("FF:FF:FF:FF:FF:FF").name == "FL_ZZZZZZZZZ7")
        var names: Set<String> = []
        for bit in 0..<48 {
            let text = String(UInt64(1) << UInt64(bit), radix: 16, uppercase: true)
            let digits = Array(String(repeating: "0", count: 12 - text.count) + text)
            let address = stride(from: 0, to: 12, by: 2).map { String(digits[$0...($0 + 1)]) }.joined(separator: ":")
            names.insert(try Self.scan(address).name)
        }
        #expect(names.count == 48 && names.allSatisfy { $0.utf8.count <= 16 })
    }

    /// Opens a link, closes it at once, and returns its properties.
    private static func properties(
        to target: LinkTarget, over transport: BlueZTransport
    ) async throws -> LinkProperties {
        var properties: LinkProperties?
        _ = try await transport.runLink(to: target) { link in
            properties = link.properties
            link.close()
        } receive: { _ in
        }
        return try #require(properties)
    }

    /// The address of a device that is absent, and whose loader has another address.
    private static let absent = "C0:11:22:33:44:56"

    @Test(
        "a loader with another address is found by the name of the device: after a restart, and by a later push",
        .enabled(if: !World.isLab), arguments: [LinkTarget.program, .device])
    func findsByName(target: LinkTarget) async throws {
        let scan = try Self.scan(Self.absent)
        try await World.run(name: scan.name) { world in
            // An earlier push, which was interrupted, has scanned.
            _ = try await Self.properties(to: .program, over: try world.transport(Self.absent, limit: .seconds(1)))
            let transport = try world.transport(Self.absent, limit: .seconds(1))
            let found = try await Self.properties(to: target, over: transport)
            #expect(found.hasOtherAddress && found.programName == scan.name)
        }
    }

    @Test("a program at the address of the device has no other address", .enabled(if: !World.isLab))
    func findsByAddress() async throws {
        try await World.run { world in
            let found = try await Self.properties(to: .program, over: try world.transport())
            #expect(!found.hasOtherAddress && found.programName == ProgramScan(world.address).name)
        }
    }

    @Test(
        "a device with the neighbouring address, or with the name of another device's loader, is not found",
        .enabled(if: !World.isLab), arguments: [LinkTarget.program, .device])
    func leavesANeighbour(target: LinkTarget) async throws {
        try await World.run(name: try Self.scan("00:AA:01:01:00:44").name) { world in
            let transport = try world.transport("00:AA:01:01:00:43", limit: .seconds(1))
            let error = await #expect(throws: LinkError.self) {
                _ = try await Self.properties(to: target, over: transport)
            }
            #expect(error?.code == .noSuchDevice, "\(String(describing: error))")
            #expect(await world.fake?.connects == 0)
        }
    }
}
