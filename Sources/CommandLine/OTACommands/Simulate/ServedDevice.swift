import DescriptorIO
import OTAClient
package import OTALinks
package import OTASimulator
import OTAUpdate

/// Connects a virtual device to a real transport. It passes received values and the current time to the device.
package final class ServedDevice: Sendable {
    let device: any ObservedDevice
    let note: @Sendable (String) -> Void
    let start = ContinuousClock.now
    private let wakes: AsyncStream<Void>
    let wake: AsyncStream<Void>.Continuation
    let restarts: AsyncStream<Void>
    let restart: AsyncStream<Void>.Continuation

    package init(_ device: any ObservedDevice, note: @escaping @Sendable (String) -> Void) {
        self.device = device
        self.note = note
        (wakes, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        (restarts, restart) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        wake.yield()
    }

    /// The time since the device was switched on.
    var now: Duration { start.duration(to: .now) }

    /// Polls the device at each time that the device requests, and after each `wake`, until the task is cancelled. Reports the changes of
    /// the device after each poll.
    func runClock() async {
        await withDiscardingTaskGroup { timers in
            var observer = DeviceObserver()
            var armed: Duration?
            for await _ in wakes {
                let due = device.poll(at: now)
                observer.changes(of: device).forEach(note)
                if let earlier = armed, earlier <= now { armed = nil }
                guard let due, armed.map({ due < $0 }) ?? true else { continue }
                armed = due
                timers.addTask {
                    try? await Task.sleep(until: self.start + due, clock: .continuous)
                    self.wake.yield()
                }
            }
            timers.cancelAll()
        }
    }
}

/// Serves the device over UDP or a serial line. These transports have no connections, and each value is a complete message.
extension ServedDevice {
    /// Serves the device over UDP until the listener is closed or the task is cancelled.
    package func serve(_ listener: UDPListener) async {
        await serve {
            await listener.receive()
        } send: { value, peer in
            await listener.send(value, to: peer)
        }
    }

    /// Serves the device over a serial line until the line fails.
    func serve(_ line: SerialLine) async {
        await serve {
            do throws(LinkError) { return (try await line.receive(), peer: 0) } catch { return nil }
        } send: { value, _ in
            try? await line.send(value)
        }
    }

    /// Passes received values to the device, and responses of the device to the peers, until `receive` returns nil.
    private func serve<Peer: Hashable & Sendable>(
        receive: () async -> (value: [UInt8], peer: Peer)?,
        send: @escaping @Sendable ([UInt8], Peer) async -> Void
    ) async {
        let peers = Guarded(Peers<Peer>())
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
                    guard let peer = peers.with({ $0.peer(connection) }) else { continue }
                    await send(value, peer)
                }
            }
            while let (value, peer) = await receive() {
                let (connection, replaced) = peers.with { $0.number(of: peer) }
                if let replaced { device.disconnect(replaced, at: now) }
                pass(value, from: connection)
                wake.yield()
            }
            answer.finish()
        }
    }

    /// Passes a value to the device. If the device has no connection with this number, the peer is connected first.
    private func pass(_ value: [UInt8], from connection: UInt16) {
        if !device.isConnected(connection) {
            // During a restart of the device, `connect` fails, and the value is discarded.
            guard device.connect(connection, valueLength: ConsoleFraming.longestPacket, at: now) else { return }
            try? device.subscribe(connection, to: device.dataChannel, on: true, at: now)
        }
        // UDP and serial lines cannot report an error to the peer, so an error is ignored.
        try? device.write(connection, device.dataChannel, value, at: now)
    }
}

/// The peers of a device over a transport without connections, such as UDP. Each peer gets a connection number.
package struct Peers<Peer: Hashable & Sendable>: Sendable {
    /// The maximum number of peers.
    package static var maximum: Int { 64 }

    private var numbers: [Peer: UInt16] = [:]
    private var peers: [UInt16: Peer] = [:]
    private var last: UInt16 = 0

    package init() {}

    /// Returns the number of a peer. A new peer gets a new number.
    ///
    /// A peer sends no message when it stops, so this type does not know which peers have stopped. Therefore at most `maximum` peers are
    /// stored. If a new peer exceeds this number, it replaces the oldest peer. The function then returns the number of the oldest peer as
    /// `replaced`. If a replaced peer sends again, it gets a new number.
    package mutating func number(of peer: Peer) -> (number: UInt16, replaced: UInt16?) {
        if let number = numbers[peer] { return (number, nil) }
        last &+= 1
        numbers[peer] = last
        peers[last] = peer
        let oldest = last &- UInt16(Self.maximum)
        guard let replaced = peers.removeValue(forKey: oldest) else { return (last, nil) }
        numbers[replaced] = nil
        return (last, oldest)
    }

    /// Returns the peer with a number; nil if the peer was replaced.
    package func peer(_ number: UInt16) -> Peer? { peers[number] }
}

/// Detects the changes of a served device, which are reported to the user.
private struct DeviceObserver {
    private var imageSize: Int?
    private var blinks = 0
    private var version: String?
    private var isOnTrial = false
    private var runsLoader = false

    /// Returns one sentence for each change since the last call.
    mutating func changes(of device: any ObservedDevice) -> [String] {
        var changes: [String] = []
        let reception = device.imageReception
        if let reception, imageSize == nil {
            changes.append("receiving an image of \(reception.size) bytes")
        }
        if reception == nil, imageSize != nil { changes.append("reception ended") }
        imageSize = reception?.size
        let blinks = device.identifyRequests
        changes += blinks.dropFirst(self.blinks).map { $0 > 0 ? "blinks for \($0) seconds" : "stops blinking" }
        self.blinks = blinks.count
        let ranLoader = runsLoader
        runsLoader = device.runsLoader
        if runsLoader, !ranLoader { changes.append("runs its firmware loader") }
        guard let running = device.running, !runsLoader else {
            // The device is restarting, or has no application now. The next call after the boot reports the version again.
            version = nil
            return changes
        }
        // `running` describes the state at the last boot. A later confirmation changes only `bootState`.
        let isOnTrial = running.isOnTrial && device.bootState?.trial == .running
        if running.image.version != version {
            changes.append("runs version \(running.image.version)" + (isOnTrial ? ", on trial" : ""))
        } else if self.isOnTrial, !isOnTrial {
            changes.append("version \(running.image.version) is confirmed")
        }
        version = running.image.version
        self.isOnTrial = isOnTrial
        return changes
    }
}
