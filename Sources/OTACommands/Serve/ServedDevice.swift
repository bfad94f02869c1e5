import BlueZ
import OTASimulator
import OTAUpdate

/// A virtual device behind a Bluetooth peripheral: it is handed what comes over the air, and the time.
final class ServedDevice: PeripheralHandler {
    private let device: VirtualDevice
    private let note: @Sendable (String) -> Void
    private let start = ContinuousClock.now
    private let wakes: AsyncStream<Void>
    private let wake: AsyncStream<Void>.Continuation
    private let restarts: AsyncStream<Void>
    private let restart: AsyncStream<Void>.Continuation

    init(_ device: VirtualDevice, note: @escaping @Sendable (String) -> Void) {
        self.device = device
        self.note = note
        (wakes, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        (restarts, restart) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        wake.yield()
    }

    /// Since it was switched on.
    private var now: Duration { start.duration(to: .now) }

    /// Advertises while it runs; at each restart drops its links and is silent until it has booted. Until the task is
    /// cancelled, or it cannot boot.
    func live(on peripheral: Peripheral, _ advertisement: Advertisement) async throws {
        device.observe { _, channel, value in
            peripheral.notify(value, on: LocalAttribute(channel))
            return true
        } onRestart: { [restart, wake] in
            restart.yield()
            wake.yield()
        }
        var restarts = restarts.makeAsyncIterator()
        while let boot = device.reachable(at: now) {
            try await Task.sleep(until: start + boot, clock: .continuous)
            let isOver = try await peripheral.withAdvertisement(advertisement) {
                await restarts.next(isolation: #isolation) == nil
            }
            if isOver { return }
            note("it restarts")
            peripheral.disconnectAll()
        }
        note("it cannot boot any more")
    }

    /// Hands it the time, until the task is cancelled.
    func keepTime() async {
        await withDiscardingTaskGroup { timers in
            var observer = DeviceObserver()
            var armed: Duration?
            for await _ in wakes {
                let due = device.poll(at: now)
                observer.look(at: device).forEach(note)
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

    // MARK: What comes

    func connected(_ connection: PeripheralConnection) async {
        note("\(connection.central) is connected")
        // While it restarts there is nobody, and requests are refused.
        _ = device.connect(connection.handle, at: now)
        wake.yield()
    }

    func disconnected(_ connection: PeripheralConnection) async {
        note("\(connection.central) is disconnected")
        device.disconnect(connection.handle, at: now)
        wake.yield()
    }

    func subscribed(_ connection: PeripheralConnection, to attribute: LocalAttribute, on: Bool) async {
        // In vain while it restarts, which the central's next request shows.
        try? device.subscribe(connection.handle, to: attribute.channel, on: on, at: now)
        wake.yield()
    }

    func read(
        _ connection: PeripheralConnection, _ attribute: LocalAttribute, offset: Int
    ) async throws(AttributeError) -> [UInt8] {
        do throws(ATTError) {
            return try device.read(connection.handle, attribute.channel, offset: offset, at: now)
        } catch { throw AttributeError(code: error.code) }
    }

    func write(
        _ connection: PeripheralConnection, _ attribute: LocalAttribute, offset: Int, _ value: [UInt8]
    ) async throws(AttributeError) {
        // Nothing in the profile is written in pieces.
        guard offset == 0 else { throw .invalidOffset }
        defer { wake.yield() }
        do throws(ATTError) {
            try device.write(connection.handle, attribute.channel, value, at: now)
        } catch { throw AttributeError(code: error.code) }
    }
}

extension PeripheralConnection {
    /// The stack's handle, as the device core wants it.
    fileprivate var handle: UInt16 { UInt16(truncatingIfNeeded: number) }
}
