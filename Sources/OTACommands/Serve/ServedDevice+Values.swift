import DescriptorIO
import OTASerial
import OTASimulator
package import OTAUDP
import OTAUpdate

/// Over UDP or a serial line, where a value is a whole message and nobody says when a connection begins.
extension ServedDevice {
    package func serve(_ listener: UDPListener) async {
        await serve {
            await listener.receive()
        } send: { value, peer in
            await listener.send(value, to: peer)
        }
    }

    /// Until the terminal fails.
    func serve(_ line: SerialLine) async {
        await serve {
            do throws(LinkError) { return (try await line.receive(), peer: 0) } catch { return nil }
        } send: { value, _ in
            try? await line.send(value)
        }
    }

    /// Until nothing is received any more.
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
            note("it restarts")
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
            // While it restarts there is nobody who hears.
            guard device.connect(connection, valueLength: ConsoleFraming.longestPacket, at: now) else { return }
            try? device.subscribe(connection, to: device.dataChannel, on: true, at: now)
        }
        // Nobody is told what becomes of it.
        try? device.write(connection, device.dataChannel, value, at: now)
    }
}
