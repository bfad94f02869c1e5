import DescriptorIO
import OTAFirmware
import OTAFleet
import OTAFleetCommands
import OTAGateway
import OTASimulator
import OTAUpdate
import Testing

@Suite("Scans of a gateway for Bluetooth devices") struct RadioFinderTests {
    @Test("a device is reported after its product was read, and again when its signal strength changes by 6 dB")
    func strength() throws {
        var table = RadioTable()
        let lamp = try id("AABBCCDDEEFF")
        #expect(table.scanned([.init(lamp, rssi: -70)]).isEmpty)
        #expect(table.unread == [lamp])
        #expect(table.read(lamp) == -70)
        #expect(table.unread.isEmpty)
        #expect(table.scanned([.init(lamp, rssi: -65)]).isEmpty)
        #expect(table.scanned([.init(lamp, rssi: nil)]).isEmpty)
        #expect(
            table.scanned([.init(lamp, rssi: -64)]) == [.heard(lamp, product: nil, version: nil, rssi: -64)])
        #expect(table.scanned([.init(lamp, rssi: -70)]) == [.heard(lamp, product: nil, version: nil, rssi: -70)])
    }

    @Test("new devices are read from the strongest to the weakest signal")
    func order() throws {
        var table = RadioTable()
        let (weak, strong, unknown) = (try id("000000000001"), try id("000000000002"), try id("000000000003"))
        _ = table.scanned([.init(unknown, rssi: nil), .init(weak, rssi: -90), .init(strong, rssi: -50)])
        #expect(table.unread == [strong, weak, unknown])
    }

    @Test("a device is lost after more missed scans than are tolerated, but not while the gateway is connected to it")
    func lost() throws {
        var table = RadioTable()
        let lamp = try id("AABBCCDDEEFF")
        _ = table.scanned([.init(lamp, rssi: -50, adapter: "hci1")])
        _ = table.read(lamp)
        table.connected(true, lamp)
        for _ in 0..<20 { #expect(table.scanned([]).isEmpty) }
        table.connected(false, lamp)
        for _ in 0..<RadioTable.toleratedMisses { #expect(table.scanned([]).isEmpty) }
        #expect(table.adapter(of: lamp) == "hci1")
        #expect(table.scanned([]) == [.lost(lamp)])
        _ = table.scanned([.init(lamp, rssi: -50)])
        #expect(table.unread == [lamp], "the version may have changed in the meantime")
    }

    @Test("one scan with a device starts the count of missed scans again")
    func seen() throws {
        var table = RadioTable()
        let lamp = try id("AABBCCDDEEFF")
        for _ in 0..<3 {
            _ = table.scanned([.init(lamp, rssi: -50)])
            _ = table.read(lamp)
            for _ in 0..<RadioTable.toleratedMisses { #expect(table.scanned([]).isEmpty) }
        }
    }

    @Test("a device that cannot be read is tried again after 1, 2, 4 … 32 scans")
    func failures() throws {
        var table = RadioTable()
        let lamp = try id("AABBCCDDEEFF")
        var tries: [Int] = []
        for scan in 1...130 {
            _ = table.scanned([.init(lamp, rssi: -50)])
            if table.unread == [lamp] {
                tries.append(scan)
                table.failedToRead(lamp)
            }
        }
        #expect(tries == [1, 2, 4, 8, 16, 32, 64, 96, 128])
    }

    @Test("the finder scans once a minute, reports the version of each device once, and continues after a failed scan")
    func finder() throws {
        let time = VirtualTime()
        let (lamp, broken) = (try id("AABBCCDDEEFF"), try id("AABBCCDDEE00"))
        let (scans, reads, sightings) = (Guarded<[Duration]>([]), Guarded<[DeviceID]>([]), Guarded<[Sighting]>([]))
        let errors = Guarded(0)
        let finder = RadioFinder(clock: time) {
            let number = scans.with { scans in
                scans.append(time.now.offset)
                return scans.count
            }
            try await time.sleep(for: .seconds(10))
            if number == 2 { throw CancellationError() }
            return [.init(lamp, rssi: -40, adapter: "hci0"), .init(broken, rssi: -60)]
        } status: { device, adapter in
            reads.with { $0.append(device) }
            #expect(adapter == (device == lamp ? "hci0" : nil))
            guard device == lamp else { throw CancellationError() }
            return DeviceDescription(product: "lamp", state: .idle, runningVersion: "1.3.0")
        } failed: { _ in
            errors.with { $0 += 1 }
        }
        try time.run {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await finder.run { sighting in sightings.with { $0.append(sighting) } } }
                try? await time.sleep(for: .seconds(200))
                group.cancelAll()
            }
        }
        #expect(scans.with { $0 } == [0, 60, 120, 180].map { Duration.seconds($0) })
        #expect(errors.with { $0 } == 1)
        #expect(
            sightings.with { $0 }
                == [.heard(lamp, product: ProductName("lamp"), version: SemanticVersion("1.3.0"), rssi: -40)])
        #expect(reads.with { $0 } == [lamp, broken, broken])
    }

    private func id(_ digits: String) throws -> DeviceID { try #require(DeviceID("ble-\(digits)")) }
}
