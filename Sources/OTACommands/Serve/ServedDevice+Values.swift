import DescriptorIO
import OTASerial
import OTASimulator
package import OTAUDP
import OTAUpdate

/// Serving over UDP or a serial line. Each value is a complete message, and there are no connections.
extension ServedDevice {
    /// Serves UDP until nothing is received any more.
    package func serve(_ listener: UDPListener) async {
        await serve {
            await listener.receive()
        } send: { value, peer in
            await listener.send(value, to: peer)
        }
    }

    /// Serves a serial line until it fails.
    func serve(_ line: SerialLine) async {
        await serve {
            do throws(LinkError) { return (try await line.receive(), peer: 0) } catch { return nil }
        } send: { value, _ in
            try? await line.send(value)
        }
    }

    /// Passes received values to the device, and its answers to the peers, until `receive` returns nil.
    private func serve<Peer: Hashable & Sendable>(
        receive: () async -> (value: [UInt8], peer: Peer)?,
        send: @escaping @Sendable ([UInt8], Peer) async -> Void
    ) async {
        let callers = Guarded(Callers<Peer>())
        let (answers, answer) = AsyncStream.makeStream(of: (connection: UInt16, value: [UInt8]).self)
        device.observe { connection, _, value in
            answer.yield((connection, value))
            return true
        } onRestart: { [note, wake] in
            note("restarting")
            wake.yield()
        }
        await withDiscardingTaskGroup { group in
            group.addTask {
                for await (connection, value) in answers {
                    guard let peer = callers.with({ $0.peer(connection) }) else { continue }
                    await send(value, peer)
                }
            }
            while let (value, peer) = await receive() {
                let (caller, forgotten) = callers.with { $0.number(of: peer) }
                if let forgotten { device.disconnect(forgotten, at: now) }
                take(value, from: caller)
                wake.yield()
            }
            answer.finish()
        }
    }

    private func take(_ value: [UInt8], from connection: UInt16) {
        if !device.isConnected(connection) {
            // During a restart the device discards the value.
            guard device.connect(connection, valueLength: ConsoleFraming.longestPacket, at: now) else { return }
            try? device.subscribe(connection, to: device.dataChannel, on: true, at: now)
        }
        // These transports cannot report an error to the peer.
        try? device.write(connection, device.dataChannel, value, at: now)
    }
}
