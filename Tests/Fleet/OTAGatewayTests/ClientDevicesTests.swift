import DescriptorIO
import OTAClient
import OTAEngine
import OTAFirmware
import OTAFleet
import OTAFleetCommands
import OTAGateway
import OTASigning
import OTASimulator
import OTAStore
import OTAUpdate
import SystemPackage
import Testing

@Suite("Devices of a gateway over the client library") struct ClientDevicesTests {
    @Test("an address that identifies one device has an ID for the fleet")
    func ids() throws {
        let ids = [
            "ble:AA:BB:CC:DD:EE:FF": "ble-AABBCCDDEEFF", "udp:192.0.2.7": "udp-192-0-2-7-1337",
            "serial:/dev/ttyACM0": "serial--dev-ttyACM0", "sim:lamp?pace=virtual": "sim-lamp",
        ]
        for (address, id) in ids { #expect(try DeviceID(of: DeviceAddress(address)).text == id) }
        for address in ["ble:", "ble:name=Thermostat", "sim:" + String(repeating: "x", count: 61)] {
            #expect(throws: AddressError.self) { try DeviceID(of: DeviceAddress(address)) }
        }
    }

    @Test("two addresses of the same device are refused")
    func sameDevice() throws {
        let addresses = try ["udp:a.b", "udp:a.b:1337"].map { try DeviceAddress($0) }
        #expect(throws: AddressError.self) { try ClientDevices(addresses, clock: ContinuousClock()) }
    }

    @Test(
        "only failures that an image can cause count as failures, and only refusals and failures are final"
    )
    func errors() {
        let ends = Dictionary(grouping: UpdateError.Code.allCases) { code -> String in
            switch PushEnd(UpdateError(code, "")) {
            case .updated: "updated"
            case .retry: "retry"
            case .refused: "refused"
            case .failed: "failed"
            }
        }
        #expect(
            Set(ends["failed"] ?? [])
                == [
                    .rolledBack, .didNotReturn, .imageNotRunning, .protocolViolation, .flashFailed, .digestMismatch,
                ])
        #expect(ends["refused"]?.contains(.untrustedByDevice) == true)
        #expect(ends["retry"]?.contains(.linkLost) == true && ends["updated"] == nil)
    }

    @Test("a device that does not report its version after the update has failed")
    func outcomes() throws {
        #expect(PushEnd(UpdateReport.Outcome.returned) == .failed(try #require(Reason("version-unknown"))))
        #expect(PushEnd(UpdateReport.Outcome.confirmed) == .updated)
    }

    @Test(
        "an interrupt reaches a push before the stage marked, and not later; the reported phases change nothing",
        arguments: [false, true])
    func interrupts(isOnTrial: Bool) throws {
        let time = VirtualTime()
        try time.run {
            let (interrupts, feed) = AsyncStream.makeStream(of: Void.self)
            let (steps, isInterrupted) = (Guarded<[PushStep]>([]), Flag())
            let end = await PushBridge.run(interrupts) { step in
                steps.with { $0.append(step) }
            } push: { accepted, gate, report in
                #expect(
                    gate(.searching, LinkError(.timedOut, "no answer")) && gate(.asking, nil) && gate(.sending, nil))
                report(.transferred(offset: 10, total: 20, sent: 10))
                if isOnTrial { #expect(gate(.marked, nil)) }
                for phase in UpdatePhase.allCases { report(.phase(phase)) }
                feed.yield()
                await withTaskGroup(of: Void.self) { group in
                    group.addTask { for await _ in accepted { isInterrupted.set() } }
                    try? await time.sleep(for: .seconds(2))
                    group.cancelAll()
                }
                return .updated
            }
            #expect(end == .updated && isInterrupted.isSet != isOnTrial)
            let expected = [
                PushStep(.connect), PushStep(.transfer), PushStep(.transfer, offset: 10, total: 20, sent: 10),
                PushStep(.trial),
            ]
            #expect(steps.with { $0 } == Array(expected.prefix(isOnTrial ? 4 : 3)))
        }
    }

    @Test("a device without an answer delays no other device, and is asked again after 60 s")
    func missingDevice() throws {
        let time = VirtualTime()
        var addresses: [OTAFleet.DeviceID: DeviceAddress] = [:]
        for number in 0..<100 {
            let address = try DeviceAddress("sim:\(number)")
            addresses[try DeviceID(of: address)] = address
        }
        let missing = try DeviceID(of: DeviceAddress("sim:0"))
        let (asked, underWay, most) = (Guarded(0), Guarded(0), Guarded(0))
        let finder = DeviceFinder(addresses, clock: time, record: { _ in .free }) { address in
            underWay.with { $0 += 1 }
            defer { underWay.with { $0 -= 1 } }
            most.with { most in most = max(most, underWay.with { $0 }) }
            try await time.sleep(for: .milliseconds(200))
            if address.text == "sim:0" {
                let first = asked.with { asked in
                    asked += 1
                    return asked == 1
                }
                if first {
                    try await time.sleep(for: .seconds(64))
                    throw CancellationError()
                }
            }
            return DeviceDescription(state: .idle, runningVersion: "1.3.0")
        }
        try time.run {
            let heard = Guarded<[OTAFleet.DeviceID: Duration]>([:])
            await finder.run { sighting in
                guard case .heard(let device, _, _, _) = sighting else { return }
                heard.with { $0[device] = time.now.offset }
            }
            var times = heard.with { $0 }
            let found = times.removeValue(forKey: missing)
            let last = try #require(found)
            #expect(times.count == 99 && times.values.allSatisfy { $0 < .seconds(2) })
            #expect(last >= .seconds(124) && last < .seconds(126))
            #expect(most.with { $0 } == DeviceFinder<VirtualTime>.atOnce)
        }
    }

    @Test("a device that the gateway has updated is heard without being asked, and all others are asked")
    func updatedDevices() throws {
        let time = VirtualTime()
        var addresses: [OTAFleet.DeviceID: DeviceAddress] = [:]
        for number in 0..<40 {
            let address = try DeviceAddress("sim:\(number)")
            addresses[try DeviceID(of: address)] = address
        }
        let updated = Set(addresses.keys.filter { $0.text.hasSuffix("7") })
        let asked = Guarded<Set<String>>([])
        let finder = DeviceFinder(addresses, clock: time, record: { updated.contains($0) ? .updatedHere : .free }) {
            address in
            asked.with { _ = $0.insert(address.text) }
            return DeviceDescription(product: "lamp", state: .idle, runningVersion: "1.3.0")
        }
        let heard = Guarded<Set<Sighting>>([])
        try time.run { await finder.run { sighting in heard.with { _ = $0.insert(sighting) } } }
        var expected: Set<Sighting> = []
        for device in addresses.keys {
            let isUpdated = updated.contains(device)
            expected.insert(
                .heard(
                    device, product: isUpdated ? nil : ProductName("lamp"),
                    version: isUpdated ? nil : SemanticVersion("1.3.0"), rssi: nil))
        }
        #expect(heard.with { $0 } == expected)
        let others = addresses.filter { !updated.contains($0.key) }.values.map(\.text)
        #expect(asked.with { $0 } == Set(others))
    }

    // A device in use answers its gateway only. If that gateway is gone, the record stays as it is.
    @Test(
        "a device that another gateway updates is asked after the update, or when its record does not change for 20 s")
    func devicesInUse() throws {
        let time = VirtualTime()
        var addresses: [OTAFleet.DeviceID: DeviceAddress] = [:]
        for name in ["busy", "gone", "free"] {
            let address = try DeviceAddress("sim:\(name)")
            addresses[try DeviceID(of: address)] = address
        }
        let record: @Sendable (OTAFleet.DeviceID) async -> RecordedUse = { device in
            switch device.text {
            case "sim-busy":
                time.now.offset < .seconds(50) ? .inUse(revision: 7 + UInt64(time.now.offset / .seconds(10))) : .free
            case "sim-gone": .inUse(revision: 5)
            default: .free
            }
        }
        let finder = DeviceFinder(addresses, clock: time, record: record) { _ in
            DeviceDescription(product: "lamp", state: .idle, runningVersion: "1.3.0")
        }
        let heard = Guarded<[String: Duration]>([:])
        try time.run {
            await finder.run { sighting in
                guard case .heard(let device, _, _, _) = sighting else { return }
                heard.with { $0[device.text] = time.now.offset }
            }
        }
        #expect(heard.with { $0 } == ["sim-free": .zero, "sim-gone": .seconds(20), "sim-busy": .seconds(60)])
    }

    @Test(
        "20 virtual devices, two gateways and a controller over a store: each device is updated once",
        arguments: StoreKind.allCases)
    func fleet(_ kind: StoreKind) async throws {
        let folder = try TemporaryFolder()
        let world = try World(local: await kind.open(in: folder))
        let devices = VirtualDeviceStore(folder: folder.path.appending("devices"))
        var addresses: [DeviceAddress] = []
        for number in 0..<20 {
            let configuration = VirtualDeviceConfiguration(
                product: world.fleet.product, trustedKeys: [world.fleet.bundleKey.publicKey])
            try devices.create("\(number)", configuration, version: #require(SemanticVersion("1.3.0")))
            addresses.append(try DeviceAddress("sim:\(number)?pace=virtual&seed=\(number)&drop-at=0.4"))
        }
        var options = Updater.Options()
        options.virtualDeviceFolder = devices.folder
        let a = try ClientDevices(Array(addresses.prefix(14)), options: options, clock: world.time)
        let b = try ClientDevices(Array(addresses.suffix(14)), options: options, clock: world.time)
        let ids = try addresses.map { try DeviceID(of: $0) }
        let rollout = try world.fleet.rollout(stages: [
            #require(Stage(.devices(Array(ids.prefix(3))), minimum: 3, soakSeconds: 60)),
            #require(Stage(.percent(100))),
        ])
        try world.run {
            try await world.fleet.publish(in: world.store)
            try await world.fleet.write(rollout, to: world.store)
            let controller = world.controller()
            let gateways = [
                try world.gateway("a", instance: 1, devices: a, slots: 3),
                try world.gateway("b", instance: 2, devices: b, slots: 3),
            ]
            try await world.wait("all devices are done") {
                let records = try await world.store.records(in: .devices).map { try DeviceRecord(parsing: $0.bytes) }
                return records.count(where: { $0.state == .done }) == 20
            }
            for gateway in gateways { try await gateway.stop() }
            await controller.kill()
            let events = try await world.store.events(after: 0).map(\.event)
            #expect(events.map(\.device.description).sorted() == ids.map(\.text).sorted())
            #expect(events.allSatisfy { $0.kind.description == "updated" && $0.attempt == 1 })
        }
        for summary in try devices.list().devices { #expect(summary.version == "1.4.0") }
    }
}
