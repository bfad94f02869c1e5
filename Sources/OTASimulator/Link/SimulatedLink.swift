import DescriptorIO
import OTATransport
import OTAUpdate

/// A link over the simulated radio, driven by a clock.
final class SimulatedLink<C: Clock>: Link, @unchecked Sendable where C.Duration == Duration {
    let properties: LinkProperties
    let events: AsyncStream<LinkEvent>
    private let transport: SimulatedTransport<C>
    private let connection: RadioConnection

    private var world: SimulatedWorld { transport.world }

    init(_ transport: SimulatedTransport<C>, _ connection: RadioConnection, _ events: AsyncStream<LinkEvent>) {
        self.transport = transport
        self.connection = connection
        self.events = events
        properties = LinkProperties(
            channels: transport.world.channels, maximumValueLength: transport.world.radio.maximumValueLength)
    }

    func submit(_ command: LinkCommand) { world.lock.locked { connection.submit(command) } }

    func close() { world.lock.locked { connection.close(at: transport.now) } }

    /// Runs the radio until the link ends or the task is cancelled. It sleeps during connection events without data.
    func run() async {
        await withDiscardingTaskGroup { timers in
            var wakes = connection.wakes.makeAsyncIterator()
            var earliest: Duration?
            running: while true {
                switch world.lock.locked({ connection.next(at: transport.now) }) {
                case .over: break running
                case .at(let time):
                    guard await transport.sleep(until: time) else { break running }
                    world.lock.locked { connection.advance(to: time) }
                case .idle(let timer):
                    // The earliest timer may have fired during other work.
                    if let due = earliest, due <= transport.now { earliest = nil }
                    if let timer, earliest.map({ timer < $0 }) ?? true {
                        earliest = timer
                        timers.addTask { await self.wake(at: timer) }
                    }
                    guard await wakes.next() != nil else { break running }
                    world.lock.locked { connection.advance(to: transport.now) }
                }
            }
            timers.cancelAll()
        }
    }

    private func wake(at time: Duration) async {
        guard await transport.sleep(until: time) else { return }
        world.lock.locked { connection.wakeIfIdle() }
    }
}
