import OTATransport
import OTAUpdate

/// A link over the modelled radio, kept going by a clock.
final class SimulatedLink<C: Clock>: Link, @unchecked Sendable where C.Duration == Duration {
    let properties: LinkProperties
    let events: AsyncStream<LinkEvent>
    private let transport: SimulatedTransport<C>
    private let connection: RadioConnection
    private let wakes: AsyncStream<Void>
    private let wake: AsyncStream<Void>.Continuation

    private var world: SimulatedWorld { transport.world }

    init(_ transport: SimulatedTransport<C>, _ connection: RadioConnection, _ events: AsyncStream<LinkEvent>) {
        self.transport = transport
        self.connection = connection
        self.events = events
        properties = LinkProperties(
            channels: transport.device.channels, maximumValueLength: transport.world.radio.maximumValueLength)
        (wakes, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    func submit(_ command: LinkCommand) {
        if world.lock.locked({ connection.submit(command) }) { wake.yield() }
    }

    func close() {
        world.lock.locked { connection.close(at: transport.now) }
        wake.yield()
    }

    /// Runs the radio until the link is over or the task is cancelled. It sleeps through connection events that have
    /// nothing to carry.
    func run() async {
        await withTaskGroup(of: Void.self) { timers in
            var wakes = wakes.makeAsyncIterator()
            var armed: Duration?
            running: while true {
                switch world.lock.locked({ connection.next(at: transport.now) }) {
                case .over: break running
                case .at(let instant):
                    guard await transport.sleep(until: instant) else { break running }
                    world.lock.locked { connection.advance(to: instant) }
                case .idle(let timer):
                    if let timer, armed.map({ timer < $0 }) ?? true {
                        armed = timer
                        timers.addTask { if await self.transport.sleep(until: timer) { self.wake.yield() } }
                    }
                    guard await wakes.next() != nil else { break running }
                    if let due = armed, due <= transport.now { armed = nil }
                    world.lock.locked { connection.advance(to: transport.now) }
                }
            }
            timers.cancelAll()
        }
    }
}
