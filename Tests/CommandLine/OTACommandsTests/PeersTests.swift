import OTACommands
import OTAEngine
import OTALinks
import OTASimulator
import OTATestSupport
import OTAUpdate
import Testing

@Suite("Peers of a served device") struct PeersTests {
    @Test("a peer has the same number in each call")
    func whoComesAgainIsTheSame() {
        var peers = Peers<String>()
        let (number, _) = peers.number(of: "a")
        #expect(peers.number(of: "b").number != number)
        #expect(peers.number(of: "a") == (number, nil))
        #expect(peers.peer(number) == "a")
    }

    /// At most 64 peers are known at a time. The number of each replaced peer is returned.
    @Test("the oldest of more than 64 peers is replaced and its number is returned")
    func theOldestIsForgotten() {
        var peers = Peers<Int>()
        var known: Set<UInt16> = []
        for peer in 0..<70_000 {
            let (number, replaced) = peers.number(of: peer)
            if let replaced {
                #expect(known.remove(replaced) != nil)
                #expect(peers.peer(replaced) == nil)
            }
            #expect(known.insert(number).inserted)
            #expect(known.count <= Peers<Int>.maximum)
            #expect(peers.peer(number) == peer)
        }
        #expect(peers.number(of: 0).replaced != nil)
    }

    /// The device keeps one connection for each known peer, not one for each earlier peer.
    @Test("a served device disconnects a peer that is replaced")
    func aServedDeviceForgetsThem() async throws {
        let device = try VirtualSMPDevice(VirtualSMPConfiguration(trustedKeys: []))
        _ = device.poll(at: .seconds(10))
        let listener = try await UDPListener(at: UDPAddress(host: "127.0.0.1", port: 0))
        let served = ServedDevice(device) { _ in }
        async let serving: Void = served.serve(listener)
        let count = Peers<SocketAddress>.maximum + 6
        let answered = await Self.ask(UDPAddress(host: "127.0.0.1", port: listener.port), peers: count)
        #expect(answered == count)
        let connected = (1...count).filter { device.isConnected(UInt16($0)) }
        #expect(connected == Array(7...count))
        await listener.close()
        await serving
    }

    /// Each of `peers` peers sends one request after the answer to the previous peer.
    ///
    /// All peers stay open until the last one is done. The kernel could give the port of a closed peer to the next one, and both
    /// would be the same peer.
    ///
    /// - Returns: the number of answered peers.
    private static func ask(_ address: UDPAddress, peers: Int) async -> Int {
        guard peers > 0 else { return 0 }
        do {
            return try await UDPTransport(address, channel: channel).withLink { link, events in
                link.submit(.subscribe(channel))
                link.submit(.send([echo], channel))
                for try await case .notified in events { return 1 + (await ask(address, peers: peers - 1)) }
                return 0
            }
        } catch {
            Issue.record(error)
            return 0
        }
    }

    /// Not a local value: with a `UInt128` in the suspended call, the program crashes (Swift 6.3.1).
    private static let channel = Channel(service: 1, characteristic: 2)

    /// SMP's echo (version 2, write, group 0, command 0) of `{"d": "x"}`.
    private static let echo: [UInt8] = [0x0A, 0, 0, 5, 0, 0, 0, 0, 0xA1, 0x61, 0x64, 0x61, 0x78]
}
