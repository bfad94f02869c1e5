import BlueZ
import DBus
import DescriptorIO
import FakeBlueZ
import Testing

/// If a client takes its own link for a link of another program, no program ends that link.
@Suite(
    "Ownership of links when bluetoothd reports an end late",
    .enabled(if: !World.isLab, "the real bluetoothd cannot be made to report an end late"))
struct SharedLinkTests {
    /// Records the links that the client must end.
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

    /// bluetoothd replies to `Disconnect` before it reports the end of the link.
    @Test("a client does not share its own earlier link when its end is reported late")
    func onesOwnOfBefore() async throws {
        try await run { world, fake, account, client in
            await fake.adjust { $0.endsAreLate = true }
            for _ in 0..<2 {
                try await client.withConnection(ConnectionRequest(.address(world.address))) { connection in
                    #expect(!connection.isShared && !account.isEmpty)
                }
            }
        }
    }

    /// The cancellation comes before the report of the earlier link's end.
    @Test("a cancelled attempt right after a link leaves nothing when the end is reported late")
    func anAttemptOnItsOwnHeels() async throws {
        try await run { world, fake, _, client in
            await fake.adjust { $0.endsAreLate = true }
            try await client.withConnection(ConnectionRequest(.address(world.address))) { _ in }
            await fake.setInRange(false)
            let task = Task { try await client.withConnection(ConnectionRequest(.address(world.address))) { _ in } }
            try await world.until("bluetoothd listens for the device") { await fake.isListening }
            task.cancel()
            await #expect(throws: BlueZError(.cancelled, "")) { try await task.value }
            try await world.until("bluetoothd stops listening") { await !fake.isListening }
        }
    }

    /// The link exists when the attempt begins and has ended when the attempt calls `Connect`.
    @Test("a shared link that ends during the attempt is replaced by a link that the client ends")
    func anothersThatHasEnded() async throws {
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
