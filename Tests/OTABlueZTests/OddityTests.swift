import BlueZ
import DBus
import FakeBlueZ
import OTABlueZ
import OTAUpdate
import Testing

/// What the real bluetoothd does now and then, and cannot be asked to do: each was seen there or read in its sources.
@Suite(.enabled(if: !World.isLab, "bluetoothd does none of it on demand"))
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

    /// The end of the old link meets the new attempt.
    @Test func anAttemptThatFailsAtOnce() async throws {
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

    @Test func aLinkThatBreaksWhileItIsExplored() async throws {
        let (report, fake) = try await push { $0.earlyBreaks = 2 }
        #expect(await fake.connects == 4)
        #expect(report.transfer?.disconnects == 0)
    }

    /// bluetoothd remembers the attributes of earlier firmware.
    @Test func aStaleTable() async throws {
        let (_, fake) = try await push { $0.staleTables = 1 }
        #expect(await fake.connects == 3)
    }

    @Test func noSockets() async throws {
        let (report, _) = try await push { $0.offersSockets = false }
        #expect(report.transfer?.gaps == 0)
    }

    @Test func aNeighbourWithoutTheService() async throws {
        _ = try await push(
            { _ in }, neighbours: [.init("00:AA:01:05:00:42", "Neighbour", services: ["180f"])], "")
    }

    @Test func twoDevicesThatCouldBeMeant() async throws {
        let service = "c7e10001-63a0-486d-9bcb-a18d79d9acd9"
        try await World.run(neighbours: [.init("00:AA:01:05:00:42", "Other", services: [service])]) { world in
            do {
                _ = try await world.push("")
                Issue.record("it chose one")
            } catch let error as UpdateError {
                #expect(error.code == .noSuchDevice)
                #expect(error.context.contains("00:AA:01:05:00:42 Other"))
                #expect(error.context.contains("\(world.address) \(world.name)"))
            }
        }
    }

    /// A program that was killed leaves its link behind, and with it a socket that bluetoothd still reads.
    @Test func aLinkThatIsLeftBehind() async throws {
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
