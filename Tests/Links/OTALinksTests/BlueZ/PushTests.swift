import BlueZ
import FakeBlueZ
import OTALinks
import OTAUpdate
import Testing

/// Complete updates with the session, the runner, the link and BlueZ. The other end is a device with the OTA profile. The tests also
/// run in the radio lab.
@Suite("Updates over BlueZ")
struct PushTests {
    /// Checks the result of a successful push.
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

    @Test("a push updates the device by address, by name or as the only device", arguments: ["", "address", "name"])
    func updatesADevice(_ form: String) async throws {
        try await World.run(imageSize: 100_000) { world in
            let address = ["name": "name=" + world.name, "address": world.address.description][form] ?? ""
            let (report, diary) = try await world.push(address)
            try await check(world, report)
            let transfer = try #require(report.transfer)
            #expect(transfer.sentBytes == 100_000)
            #expect(transfer.resentBytes == 0)
            // bluetoothd empties the socket slowly. Still, no flush may overtake an earlier chunk.
            #expect(transfer.gaps == 0)
            #expect(transfer.disconnects == 0)
            #expect(transfer.flushes >= 1)
            #expect(!diary.reports.contains { if case .linkLost = $0 { true } else { false } })
        }
    }

    @Test("a push resumes from the device's offset after a broken link")
    func goesOnAfterABrokenLink() async throws {
        try await World.run(imageSize: 100_000) { world in
            let (report, diary) = try await world.push { _ in try await world.pull(.cut) }
            try await check(world, report)
            #expect(diary.isDisturbed)
            let transfer = try #require(report.transfer)
            #expect(transfer.disconnects == 1)
            #expect(transfer.resentBytes < 100_000)
            #expect(diary.reports.contains { if case .resumed(let offset, _) = $0 { offset > 0 } else { false } })
        }
    }

    @Test("a push resumes when the device is back in range")
    func goesOnWhenTheDeviceComesBack() async throws {
        try await World.run(imageSize: 100_000) { world in
            let (report, _) = try await world.push { _ in
                try await world.pull(.leave)
                try await world.waitForConnectionAttempt()
                try await world.pull(.comeBack)
            }
            try await check(world, report)
            #expect(report.transfer?.disconnects == 1)
        }
    }

    @Test("a push resumes after a restart of bluetoothd")
    func goesOnAfterBluetoothdsDeath() async throws {
        try await World.run(imageSize: 100_000) { world in
            let (report, _) = try await world.push { diary in
                try await world.pull(.killService)
                await diary.waitForLinkLoss()
                try await world.pull(.startService)
            }
            try await check(world, report)
            #expect(report.transfer?.disconnects == 1)
        }
    }

    @Test("a push pairs with a device that requires it")
    func pairsWhereTheDeviceDemandsIt() async throws {
        try await World.run(passkey: 123_456) { world in
            let (report, _) = try await world.push(pairing: .passkey(123_456))
            try await check(world, report)
            let client = try await BlueZClient.open(world.bus)
            try await client.removeDevice(world.address)
        }
    }

    @Test(
        "a push fails with notPermitted without the right passkey",
        arguments: [PairingResponder.unattended, .refusing, .passkey(654_321)])
    func isRefusedWithoutTheRightPasskey(_ responder: PairingResponder) async throws {
        try await World.run(passkey: 123_456) { world in
            await #expect(throws: UpdateError(.notPermitted, "")) { _ = try await world.push(pairing: responder) }
            try await world.until("no link is left") { try await !world.isConnected }
        }
    }

    @Test("a push to an unknown name fails with noSuchDevice")
    func saysThatNobodyIsThere() async throws {
        try await World.run { world in
            await #expect(throws: UpdateError(.noSuchDevice, "")) {
                _ = try await world.push("name=Nobody", limit: .seconds(2))
            }
        }
    }

    @Test("a push fails with linkUnavailable without bluetoothd or a powered adapter")
    func saysThatBluetoothIsNot() async throws {
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
