import BlueZ
import DBus
import FakeBlueZ
import OTALinks
import OTAUpdate
import Testing

/// The real bluetoothd behaves like this at times, but not on demand. Each case was observed or found in its source.
@Suite(
    "Updates despite peculiarities of bluetoothd",
    .enabled(if: !World.isLab, "the real bluetoothd does not behave like this on demand"))
struct OddityTests {
    private func push(
        _ adjust: @escaping @Sendable (isolated FakeBlueZ) -> Void, neighbours: [FakeBlueZ.Neighbour] = [],
        _ address: String? = nil
    ) async throws -> (report: UpdateReport, fake: FakeBlueZ) {
        try await World.run(neighbours: neighbours) { world in
            let fake = try #require(world.fake)
            await fake.adjust(adjust)
            let (report, _) = try await world.push(address)
            #expect(report.outcome == .confirmed)
            #expect(fake.runs(world.release))
            return (report, fake)
        }
    }

    /// The new attempt begins while the old link is closing.
    @Test("an update succeeds after three failed connection attempts")
    func anAttemptThatFailsAtOnce() async throws {
        let (report, fake) = try await push {
            $0.connectErrors = [
                .remote("org.bluez.Error.Failed", "Input/output error"),
                .remote("org.bluez.Error.Failed", "le-connection-abort-by-local"),
                .remote("org.bluez.Error.InProgress", "Operation already in progress"),
            ]
        }
        #expect(await fake.connects == 5)
        #expect(report.transfer?.disconnects == 0)
    }

    @Test("an update succeeds after two links that break during the service discovery")
    func aLinkThatBreaksWhileItIsExplored() async throws {
        let (report, fake) = try await push { $0.earlyBreaks = 2 }
        #expect(await fake.connects == 4)
        #expect(report.transfer?.disconnects == 0)
    }

    /// bluetoothd has the attributes of earlier firmware in its cache.
    @Test("an update succeeds with a stale attribute cache")
    func aStaleTable() async throws {
        let (_, fake) = try await push { $0.staleTables = 1 }
        #expect(await fake.connects == 3)
    }

    private static let writeNotPermitted = DBusError.remote("org.bluez.Error.NotPermitted", "Write not permitted")
    private static let staleEffects: [FakeBlueZ.StaleEffect] = [
        .refused(writeNotPermitted),
        .refused(.remote("org.bluez.Error.Failed", "Operation failed with ATT error: 0x0a")), .accepted,
    ]

    @Test("an update succeeds if bluetoothd has an old attribute table at its start", arguments: staleEffects)
    func aStaleTableFromTheStart(_ effect: FakeBlueZ.StaleEffect) async throws {
        try await World.run { world in
            let fake = try #require(world.fake)
            await fake.adjust { $0.staleEffect = effect }
            await fake.cacheStaleTable()
            let (report, _) = try await world.push()
            #expect(report.outcome == .confirmed)
            #expect(await fake.removals == 1)
        }
    }

    @Test("an update succeeds if the new firmware has moved its attributes", arguments: staleEffects)
    func aTableThatChanges(_ effect: FakeBlueZ.StaleEffect) async throws {
        let (_, fake) = try await push {
            $0.staleEffect = effect
            $0.movesAttributes = true
        }
        #expect(await fake.removals >= 1)
    }

    @Test("a paired device with an old attribute table keeps its bond, and the update fails")
    func aStaleTableOfAPairedDevice() async throws {
        try await World.run { world in
            let fake = try #require(world.fake)
            await fake.adjust {
                $0.isPaired = true
                $0.staleEffect = .refused(Self.writeNotPermitted)
            }
            await fake.cacheStaleTable()
            await #expect(throws: UpdateError(.attributeRefused, "")) { _ = try await world.push() }
            #expect(await fake.removals == 0)
        }
    }

    @Test("a device that refuses each subscription is removed from bluetoothd only once")
    func aRefusalWithoutAStaleTable() async throws {
        try await World.run { world in
            let fake = try #require(world.fake)
            await fake.adjust {
                $0.subscriptionError = .remote("org.bluez.Error.Failed", "Operation failed with ATT error: 0x80")
            }
            await #expect(throws: UpdateError(.attributeRefused, "")) { _ = try await world.push() }
            #expect(await fake.removals == 1)
        }
    }

    @Test("a characteristic that another program has acquired is reported as in use")
    func aCharacteristicInUse() async throws {
        try await World.run { world in
            let fake = try #require(world.fake)
            await fake.adjust { $0.subscriptionError = .remote("org.bluez.Error.NotPermitted", "Notify acquired") }
            await #expect(throws: UpdateError(.deviceInUse, "")) { _ = try await world.push() }
        }
    }

    @Test("an update succeeds without sockets of bluetoothd")
    func noSockets() async throws {
        let (report, _) = try await push { $0.offersSockets = false }
        #expect(report.transfer?.gaps == 0)
    }

    @Test("a neighbor without the update service is not a candidate")
    func aNeighbourWithoutTheService() async throws {
        _ = try await push(
            { _ in }, neighbours: [.init("00:AA:01:05:00:42", "Neighbour", services: ["180f"])], "")
    }

    @Test("two devices with the update service fail with a list of both")
    func twoDevicesThatCouldBeMeant() async throws {
        let service = "c7e10001-63a0-486d-9bcb-a18d79d9acd9"
        try await World.run(neighbours: [.init("00:AA:01:05:00:42", "Other", services: [service])]) { world in
            do {
                _ = try await world.push("")
                Issue.record("the transport chose one of two devices")
            } catch let error as UpdateError {
                #expect(error.code == .noSuchDevice)
                #expect(error.context.contains("00:AA:01:05:00:42 Other"))
                #expect(error.context.contains("\(world.address) \(world.name)"))
            }
        }
    }

    /// A killed program leaves its link, and with it a socket that bluetoothd still reads.
    @Test("an update takes over the link of another program")
    func aLinkThatIsLeftBehind() async throws {
        try await World.run { world in
            let client = try await BlueZClient.open(world.bus)
            try await client.withConnection(ConnectionRequest(.address(world.address))) { connection in
                let (report, _) = try await world.push()
                #expect(report.outcome == .confirmed)
                _ = try await connection.waitForEnd()
            }
        }
    }
}
