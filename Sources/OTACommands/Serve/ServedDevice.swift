package import OTAClient
import OTASimulator

/// Connects a virtual device to a real transport. It passes received values and the time to the device.
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

    /// Passes the time to the device until the task is cancelled.
    func runClock() async {
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
}
