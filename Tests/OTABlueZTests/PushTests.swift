import BlueZ
import FakeBlueZ
import OTABlueZ
import OTAUpdate
import Testing

/// Whole updates: session, runner, link and BlueZ on this side, a device with the profile on the other. They hold in the radio lab
/// as well.
struct PushTests {
    /// What remains of a push that went well.
    private func check(_ world: World, _ report: UpdateReport) async throws {
        #expect(report.outcome == .confirmed)
        #expect(report.device.runningVersion == "1.1.0")
        #expect(report.device.previousVersion == "1.0.0")
        if let fake = world.fake {
            #expect(fake.runs(world.release))
            #expect(await !fake.hasAgent)
        }
        try await world.until("no link is left") { try await !world.isConnected }
    }

    @Test(arguments: ["", "address", "name"])
    func updatesADevice(_ form: String) async throws {
        try await World.run(imageSize: 100_000) { world in
            let address = ["name": "name=" + world.name, "address": world.address.description][form] ?? ""
            let (report, diary) = try await world.push(address)
            try await check(world, report)
            let transfer = try #require(report.transfer)
            #expect(transfer.sentBytes == 100_000)
            #expect(transfer.resentBytes == 0)
            // No flush got ahead of a chunk that was sent before it, though bluetoothd is slow to empty the socket.
            #expect(transfer.gaps == 0)
            #expect(transfer.disconnects == 0)
            #expect(transfer.flushes >= 1)
            #expect(!diary.reports.contains { if case .linkLost = $0 { true } else { false } })
        }
    }

    @Test func goesOnAfterABrokenLink() async throws {
        try await World.run(imageSize: 100_000) { world in
            let (report, diary) = try await world.push { try await world.pull(.cut) }
            try await check(world, report)
            #expect(diary.isDisturbed)
            let transfer = try #require(report.transfer)
            #expect(transfer.disconnects == 1)
            #expect(transfer.resentBytes < 100_000)
            #expect(diary.reports.contains { if case .resumed(let offset, _) = $0 { offset > 0 } else { false } })
        }
    }

    @Test func goesOnWhenTheDeviceComesBack() async throws {
        try await World.run(imageSize: 100_000) { world in
            let (report, _) = try await world.push {
                try await world.pull(.leave)
                try await Task.sleep(for: .seconds(2))
                try await world.pull(.comeBack)
            }
            try await check(world, report)
            #expect(report.transfer?.disconnects == 1)
        }
    }

    @Test func goesOnAfterBluetoothdsDeath() async throws {
        try await World.run(imageSize: 100_000) { world in
            let (report, _) = try await world.push {
                try await world.pull(.killService)
                try await Task.sleep(for: .seconds(1))
                try await world.pull(.startService)
            }
            try await check(world, report)
            #expect(report.transfer?.disconnects == 1)
        }
    }

    @Test func pairsWhereTheDeviceDemandsIt() async throws {
        try await World.run(passkey: 123_456) { world in
            let (report, _) = try await world.push(pairing: .passkey(123_456))
            try await check(world, report)
            let client = try await BlueZClient.open(world.bus)
            try await client.removeDevice(world.address)
        }
    }

    @Test(arguments: [PairingResponder.unattended, .passkey(654_321)])
    func isRefusedWithoutTheRightPasskey(_ responder: PairingResponder) async throws {
        try await World.run(passkey: 123_456) { world in
            await #expect(throws: UpdateError(.notPermitted, "")) { _ = try await world.push(pairing: responder) }
            try await world.until("no link is left") { try await !world.isConnected }
        }
    }

    @Test func saysThatNobodyIsThere() async throws {
        try await World.run { world in
            await #expect(throws: UpdateError(.noSuchDevice, "")) {
                _ = try await world.push("name=Nobody", limit: .seconds(2))
            }
        }
    }

    @Test func saysThatBluetoothIsNot() async throws {
        try await World.run { world in
            try await world.pull(.killService)
            await #expect(throws: UpdateError(.linkUnavailable, "")) { _ = try await world.push() }
            try await world.pull(.startService)
            try await world.until("an adapter is powered") { try await world.isPowered }
            try await world.setPower(false)
            await #expect(throws: UpdateError(.linkUnavailable, "")) { _ = try await world.push() }
            try await world.setPower(true)
        }
    }
}
