import OTACommands
import OTASimulator
import OTATransport
import OTAUDP
import OTAUpdate
import Testing

@Suite("Callers of a served device") struct CallersTests {
    @Test("a caller has the same number in each call")
    func whoComesAgainIsTheSame() {
        var callers = Callers<String>()
        let (number, _) = callers.number(of: "a")
        #expect(callers.number(of: "b").number != number)
        #expect(callers.number(of: "a") == (number, nil))
        #expect(callers.peer(number) == "a")
    }

    /// At most 64 callers are known at a time. The number of each discarded caller is returned.
    @Test("the oldest of more than 64 callers is discarded and its number is returned")
    func theOldestIsForgotten() {
        var callers = Callers<Int>()
        var known: Set<UInt16> = []
        for peer in 0..<70_000 {
            let (number, forgotten) = callers.number(of: peer)
            if let forgotten {
                #expect(known.remove(forgotten) != nil)
                #expect(callers.peer(forgotten) == nil)
            }
            #expect(known.insert(number).inserted)
            #expect(known.count <= Callers<Int>.most)
            #expect(callers.peer(number) == peer)
        }
        #expect(callers.number(of: 0).forgotten != nil)
    }

    /// The device keeps one connection for each known caller, not one for each past caller.
    @Test("a served device disconnects a caller that is discarded")
    func aServedDeviceForgetsThem() async throws {
        let device = try VirtualSMPDevice(VirtualSMPConfiguration(trustedKeys: []))
        _ = device.poll(at: .seconds(10))
        let listener = try await UDPListener(at: UDPAddress(host: "127.0.0.1", port: 0))
        let served = ServedDevice(device) { _ in }
        async let serving: Void = served.serve(listener)
        let count = Callers<SocketAddress>.most + 6
        let answered = await Self.ask(UDPAddress(host: "127.0.0.1", port: listener.port), callers: count)
        #expect(answered == count)
        let connected = (1...count).filter { device.isConnected(UInt16($0)) }
        #expect(connected == Array(7...count))
        await listener.close()
        await serving
    }

    /// Each of `callers` callers sends one request after the answer to the previous caller.
    ///
    /// All callers stay open until the last one is done. The kernel could give the port of a closed caller to the next one, and both
    /// would be the same caller.
    ///
    /// - Returns: the number of answered callers.
    private static func ask(_ address: UDPAddress, callers: Int) async -> Int {
        guard callers > 0 else { return 0 }
        let channel = Channel(service: 1, characteristic: 2)
        do {
            return try await UDPTransport(address, channel: channel).withLink { link in
                link.submit(.subscribe(channel))
                link.submit(.send([echo], channel))
                for await case .notified in link.events { return 1 + (await ask(address, callers: callers - 1)) }
                return 0
            }
        } catch {
            Issue.record(error)
            return 0
        }
    }

    /// SMP's echo (version 2, write, group 0, command 0) of `{"d": "x"}`.
    private static let echo: [UInt8] = [0x0A, 0, 0, 5, 0, 0, 0, 0, 0xA1, 0x61, 0x64, 0x61, 0x78]
}
