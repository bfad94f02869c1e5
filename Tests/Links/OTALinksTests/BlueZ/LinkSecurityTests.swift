import BlueZ
import FakeBlueZ
import OTAEngine
import OTALinks
import OTAProfile
import OTAUpdate
import Synchronization
import Testing

/// Pushes that require a bond or an authenticated link.
@Suite("Security of a link over BlueZ") struct LinkSecurityTests {
    /// Records in memory.
    private final class Records: BondRecords {
        private let known = Mutex([Bond: Bool]())

        var all: [Bool] { known.withLock { Array($0.values) } }
        func isAuthenticated(_ bond: Bond) -> Bool? { known.withLock { $0[bond] } }
        func record(_ bond: Bond, isAuthenticated: Bool?) { known.withLock { $0[bond] = isAuthenticated } }
    }

    private func transport(
        _ world: World, _ requirement: LinkRequirement, _ records: Records, pairing: PairingResponder
    ) throws -> BlueZTransport {
        let address = try #require(BLEAddress(world.address.description))
        return BlueZTransport(
            address, services: [ProfileChannel.service], adapter: "hci0", pairing: pairing, requiring: requirement,
            bonds: records, sharing: SharedBlueZClient(world.bus))
    }

    private func push(_ world: World, _ transport: BlueZTransport) async throws -> UpdateReport {
        let session = UpdateSession(
            try ProfileConversation(.push(world.release.bundle, UpdateOptions(resume: .never))), seed: 1)
        return try await UpdateRunner(clock: ContinuousClock()).run(
            session, over: transport, interrupts: AsyncStream<Void> { $0.finish() })
    }

    @Test(
        "a device that pairs without a passkey, also at once, is refused before its first request, and no bond stays",
        .enabled(if: !World.isLab), arguments: [LinkRequirement.bond, .authentication], [false, true])
    func unauthenticated(_ requirement: LinkRequirement, requestsSecurity: Bool) async throws {
        try await World.run { world in
            let fake = try #require(world.fake)
            await fake.adjust { $0.requestsSecurity = requestsSecurity }
            let records = Records()
            let transport = try transport(world, requirement, records, pairing: .passkey(123_456))
            let error = await #expect(throws: UpdateError(.notPermitted, "")) { _ = try await push(world, transport) }
            #expect(error?.remedy == .checkDevice)
            #expect(await !fake.isPaired)
            #expect(await fake.removals == 1)
            #expect(!fake.runs(world.release))
            #expect(await transport.security == nil && records.all.isEmpty)
        }
    }

    @Test("a bond with a passkey is recorded, accepted later, and reported as authenticated")
    func authenticated() async throws {
        try await World.run(passkey: 123_456) { world in
            let records = Records()
            let first = try transport(world, .authentication, records, pairing: .passkey(123_456))
            #expect(try await push(world, first).outcome == .confirmed)
            #expect(await first.security == LinkSecurity(isEncrypted: true, isAuthenticated: true))
            #expect(records.all == [true])
            let second = try transport(world, .authentication, records, pairing: .unattended)
            #expect(try await push(world, second).outcome == .alreadyRunning)
            #expect(await second.security == LinkSecurity(isEncrypted: true, isAuthenticated: true))
            try await BlueZClient.open(world.bus).removeDevice(world.address)
        }
    }

    @Test(
        "a bond of another program is accepted only without a passkey, and a bond without authentication never",
        .enabled(if: !World.isLab),
        arguments: [
            (LinkRequirement.bond, nil, true), (.authentication, nil, false), (.bond, false, false),
            (.authentication, false, false), (.authentication, true, true),
        ])
    func existing(_ requirement: LinkRequirement, _ record: Bool?, _ isAccepted: Bool) async throws {
        try await World.run { world in
            let records = Records()
            let fake = try #require(world.fake)
            let client = try await BlueZClient.open(world.bus)
            try await client.withConnection(ConnectionRequest(.address(world.address), adapter: "hci0")) {
                try await $0.pair()
            }
            let adapter = try #require(try await client.adapters.first { $0.name == "hci0" })
            if let record {
                records.record(Bond(adapter: adapter.address, device: world.address), isAuthenticated: record)
            }
            let transport = try transport(world, requirement, records, pairing: .unattended)
            if isAccepted {
                #expect(try await push(world, transport).outcome == .confirmed)
                #expect(await transport.security == LinkSecurity(isEncrypted: true, isAuthenticated: record))
            } else {
                let error = await #expect(throws: UpdateError(.notPermitted, "")) {
                    _ = try await push(world, transport)
                }
                #expect(error?.remedy == .removeBond && !fake.runs(world.release))
            }
            #expect(await fake.isPaired, "an existing bond stays")
        }
    }

    @Test("without a requirement, the result shows a link without encryption", .enabled(if: !World.isLab))
    func noRequirement() async throws {
        try await World.run { world in
            let transport = try transport(world, .none, Records(), pairing: .unattended)
            #expect(try await push(world, transport).outcome == .confirmed)
            #expect(await transport.security == LinkSecurity(isEncrypted: false, isAuthenticated: false))
        }
    }
}
