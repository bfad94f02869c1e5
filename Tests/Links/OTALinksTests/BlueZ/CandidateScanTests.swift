import BlueZ
import DBus
import OTALinks
import Testing

/// The choice between a restarted device and other devices in a scan.
@Suite("Candidates for a device with a new address") struct CandidateScanTests {
    private static let adapter: DBusObjectPath = "/org/bluez/hci0"
    private static let service = "8d53dc1d-1db7-4cd3-868b-8a527460aa84"
    private static let old = "C0:00:00:00:00:01"

    /// The device with these properties, as bluetoothd reports it.
    private static func device(
        _ address: String, name: String? = "Lamp", kind: String = "random", services: [String] = [service],
        isPaired: Bool = false, isConnected: Bool = false
    ) throws -> BluetoothDevice {
        let path = adapter.appending("dev_" + address.split(separator: ":").joined(separator: "_"))
        var properties: [String: DBusValue] = [
            "Adapter": .objectPath(adapter), "Address": .string(address), "AddressType": .string(kind),
            "UUIDs": .strings(services), "Paired": .boolean(isPaired), "Connected": .boolean(isConnected),
            "RSSI": .int16(-50),
        ]
        if let name { properties["Name"] = .string(name) }
        var tree = BlueZObjectTree()
        _ = tree.apply(.snapshot([:]))
        #expect(tree.apply(.added(path, ["org.bluez.Device1": properties])).isEmpty)
        return try #require(tree.devices[path])
    }

    private static func likeness(others: Set<String> = []) throws -> Likeness {
        let device = try Self.device(old)
        return try Likeness.of(
            device, names: ["Lamp", "Lamp 2"], services: device.serviceUUIDs,
            others: Set(others.compactMap { BluetoothAddress($0) })
        ).get()
    }

    @Test("the known address ends the scan, and another device with the name and the service is a candidate")
    func namesake() throws {
        var scan = CandidateScan(try Self.likeness(), rejected: [])
        let other = try Self.device("C0:00:00:00:00:02", name: "Lamp 2")
        #expect(!scan.note(.appeared(other)) && scan.candidates == [other])
        // The same device again is no second candidate.
        #expect(!scan.note(.changed(other)) && scan.candidates.count == 1)
        #expect(scan.note(.appeared(try Self.device(Self.old))))
        #expect(!scan.note(.disappeared(other)) && scan.candidates.isEmpty)
    }

    @Test("a device of another kind, with a bond or a link, or with a rejection is no candidate")
    func others() throws {
        var scan = CandidateScan(try Self.likeness(others: ["C0:00:00:00:00:09"]), rejected: ["C0:00:00:00:00:08"])
        let others = [
            try Self.device("C0:00:00:00:00:02", name: nil), try Self.device("C0:00:00:00:00:02", name: "Lam"),
            try Self.device("C0:00:00:00:00:02", services: []), try Self.device("C0:00:00:00:00:02", kind: "public"),
            try Self.device("C0:00:00:00:00:02", isPaired: true),
            try Self.device("C0:00:00:00:00:02", isConnected: true),
            try Self.device("C0:00:00:00:00:08"), try Self.device("C0:00:00:00:00:09"),
        ]
        for other in others { #expect(!scan.note(.appeared(other)) && scan.candidates.isEmpty, "\(other)") }
        #expect(
            scan.failure(after: .seconds(10))
                == "C0:00:00:00:00:01 was not seen within 10 s, and no new device with the name “Lamp” or “Lamp 2”; 1 with this name was "
                + "there before the restart")
    }

    @Test(
        "a device with a bond, with a public address or without a name has no candidates",
        arguments: [(true, "random", "Lamp"), (false, "public", "Lamp"), (false, "random", nil)])
    func unrecognizable(_ isPaired: Bool, _ kind: String, _ name: String?) throws {
        let device = try Self.device(Self.old, name: name, kind: kind, isPaired: isPaired)
        let names = Set([name].compactMap { $0 })
        let likeness = Likeness.of(device, names: names, services: device.serviceUUIDs, others: [])
        #expect(throws: Unrecognizable.self) { try likeness.get() }
    }
}
