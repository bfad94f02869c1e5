import OTACommands
import OTASimulator
import OTATransport
import OTAUDP
import OTAUpdate
import Testing

@Suite struct CallersTests {
    @Test func whoComesAgainIsTheSame() {
        var callers = Callers<String>()
        let (number, _) = callers.number(of: "a")
        #expect(callers.number(of: "b").number != number)
        #expect(callers.number(of: "a") == (number, nil))
        #expect(callers.peer(number) == "a")
    }

    /// Of any number of callers, 64 at a time are known, and each of the others was given up by its number.
    @Test func theOldestIsForgotten() {
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

    /// As many connections as callers that are known: it does not keep those of all there ever were.
    @Test func aServedDeviceForgetsThem() async throws {
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

    /// As many callers as told, each asks once, after the one before was answered. All of them stay until the last is done: the port of
    /// one that left could be given to the next, and they would be the same caller.
    /// - Returns: how many were answered.
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
