import BlueZ
import DBus
import DescriptorIO
import FakeBlueZ
import Testing

/// Whose a link is, where bluetoothd tells of an end later than it could be known: a link that is taken for another program's is
/// ended by nobody.
@Suite(.enabled(if: !World.isLab, "bluetoothd tells of an end a moment later, not when it is asked to"))
struct SharedLinkTests {
    /// Which links are a client's to end.
    private final class Account: LinkAccount {
        private let links = Guarded<Set<DBusObjectPath>>([])

        var isEmpty: Bool { links.with { $0.isEmpty } }

        func opened(_ device: DBusObjectPath) { links.with { #expect($0.insert(device).inserted) } }

        func ended(_ device: DBusObjectPath) { links.with { #expect($0.remove(device) != nil) } }
    }

    private func run(_ body: @Sendable (World, FakeBlueZ, Account, BlueZClient) async throws -> Void) async throws {
        try await World.run { world in
            let fake = try #require(world.fake)
            let account = Account()
            try await body(world, fake, account, try await BlueZClient.open(world.bus, links: account))
            #expect(account.isEmpty)
            try await world.expectQuiet()
            #expect(await !fake.isListening)
        }
    }

    /// `Disconnect` is answered before the end of the link is told.
    @Test func onesOwnOfBefore() async throws {
        try await run { world, fake, account, client in
            await fake.adjust { $0.endsAreLate = true }
            for _ in 0..<2 {
                try await client.withConnection(ConnectionRequest(.address(world.address))) { connection in
                    #expect(!connection.isShared && !account.isEmpty)
                }
            }
        }
    }

    /// Where it is cancelled before the end of one's own link before was told.
    @Test func anAttemptOnItsOwnHeels() async throws {
        try await run { world, fake, _, client in
            await fake.adjust { $0.endsAreLate = true }
            try await client.withConnection(ConnectionRequest(.address(world.address))) { _ in }
            await fake.setInReach(false)
            let task = Task { try await client.withConnection(ConnectionRequest(.address(world.address))) { _ in } }
            try await world.until("it listens") { await fake.isListening }
            task.cancel()
            await #expect(throws: BlueZError(.cancelled, "")) { try await task.value }
            try await world.until("nobody listens") { await !fake.isListening }
        }
    }

    /// Shared when the attempt begins, and gone when it comes to `Connect`.
    @Test func anothersThatHasEnded() async throws {
        try await run { world, fake, account, client in
            let other = try await BlueZClient.open(world.bus)
            await fake.adjust { $0.endsAreLate = true }
            try await other.withConnection(ConnectionRequest(.address(world.address))) { link in
                await fake.cut()
                try await client.withConnection(ConnectionRequest(.address(world.address))) { connection in
                    #expect(!connection.isShared && !account.isEmpty)
                    _ = try await link.waitForEnd()
                }
            }
        }
    }
}
