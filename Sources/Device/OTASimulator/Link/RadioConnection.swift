import OTAEngine
import OTAUpdate

/// One connection over the simulated radio. This class simulates the connection events.
///
/// The class has no clock. The caller gets the time of the next event from `next(at:)`, and calls `advance(to:)` at this time. The caller
/// must hold the world's lock.
final class RadioConnection {
    /// The result of `next(at:)`.
    enum Next {
        /// The time of the next call of `advance(to:)`.
        case at(Duration)
        /// No data is queued in either direction. The next call of `advance(to:)` is due when `wakes` yields an element or when the
        /// device's next timer is due. `until` is the time of this timer; nil if no timer runs.
        case idle(until: Duration?)
        case over
    }

    private enum State {
        case open
        /// The connection carries no more packets. The host and the device detect this at the time `noticed`.
        case broken(noticed: Duration)
        case closed
    }

    unowned let world: SimulatedWorld
    let handle: UInt16
    /// The closure that receives the events for the host. The closure must not call the link, because the world's lock is held during the
    /// call.
    let receive: LinkSink
    /// A stream that yields an element when an idle connection must run again.
    let wakes: AsyncStream<Void>
    /// A stream with one element: the reason why the connection ended.
    let ends: AsyncStream<LinkError>

    private let wake: AsyncStream<Void>.Continuation
    private let ending: AsyncStream<LinkError>.Continuation
    private let start: Duration
    private var state = State.open
    /// The time of the latest connection event. While the connection is idle, the radio does not simulate events, and this time is out of
    /// date. After an idle time, `next(at:)` updates this time.
    private var anchor: Duration
    private var isIdle = false

    var down = Fifo<LinkCommand>()
    /// The index of the next value to send, if the first queued command is `send`.
    var valueIndex = 0
    var downMeter = PacketMeter()
    var request: Request?
    /// True if a long read is incomplete. The host's stack must then request the next part of the value.
    var hasMoreToRead = false

    var up = Fifo<UplinkValue>()
    var upMeter = PacketMeter()
    var notificationsQueued = 0
    /// Whether the device's Bluetooth stack has refused a notification because no buffer was free. The next `moveUp` then polls the device,
    /// so that the device sends the notification again.
    var wasRefused = false

    init(world: SimulatedWorld, handle: UInt16, receive: @escaping LinkSink, at now: Duration) {
        self.world = world
        self.handle = handle
        self.receive = receive
        self.start = now
        self.anchor = now
        (wakes, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        (ends, ending) = AsyncStream.makeStream()
    }

    var isOpen: Bool { if case .open = state { true } else { false } }

    private var hasWork: Bool { !up.isEmpty || wasRefused || nextLength != nil }

    func next(at now: Duration) -> Next {
        var timer: Duration?
        if isOpen, !hasWork {
            timer = world.device.poll(at: now)
            checkDevice(at: now)
        }
        switch state {
        case .closed: return .over
        case .broken(let noticed): return .at(noticed)
        case .open: break
        }
        guard hasWork else {
            isIdle = true
            return .idle(until: timer)
        }
        if isIdle {
            isIdle = false
            let passed = (now - start).nanoseconds / world.radio.interval.nanoseconds
            anchor = max(anchor, start + .nanoseconds(passed * world.radio.interval.nanoseconds))
        }
        return .at(anchor + world.radio.interval)
    }

    /// Simulates the connection event that is due at `now`. If the connection is broken and its supervision timeout has passed, this
    /// function ends the connection.
    func advance(to now: Duration) {
        switch state {
        case .closed: break
        case .broken(let noticed):
            if noticed <= now { end(LinkError(.lost, "the device stopped responding"), at: now) }
        case .open:
            _ = world.device.poll(at: now)
            checkDevice(at: now)
            // While the connection is idle, `anchor` is out of date, so this call simulates no event. The next call of `next(at:)` updates
            // `anchor`.
            guard isOpen, !isIdle, hasWork, anchor + world.radio.interval <= now else { return }
            anchor += world.radio.interval
            guard !world.random.happens(world.radio.loss) else { return }
            // In the direction to the host, this event sends only the values that the device queued before the event. The device's
            // responses to the values that the host sends in this event follow in the next event.
            let waiting = up.count
            moveDown(at: now)
            moveUp(waiting, at: now)
        }
    }

    /// Ends the connection immediately on request of the host.
    func close(at now: Duration) {
        if case .closed = state { return }
        end(LinkError(.lost, "the host closed the link"), at: now)
    }

    func wakeIfIdle() { if isIdle { wake.yield() } }

    /// If a fault of the image transfer is due (`FaultCounter.imageReached`), applies the fault and breaks the connection. Also breaks the
    /// connection if the device has ended it, for example at a restart. Call this function after each call to the device.
    func checkDevice(at now: Duration) {
        guard isOpen else { return }
        if let (offset, size) = world.device.imageReception, let fault = world.faults.imageReached(offset, of: size) {
            if fault == .powerFails { world.device.losePower(at: now) }
            if fault == .deviceGoesAway { world.isGone = true }
            breakByPlan(at: now)
        } else if !world.device.isConnected(handle) {
            breakLink(at: now)
        }
    }

    /// Breaks the connection because of a fault in the fault plan. The device is then out of reach for the time `outOfReach` of the plan.
    func breakByPlan(at now: Duration) {
        world.outOfReachUntil = max(world.outOfReachUntil, now + world.plan.outOfReach)
        breakLink(at: now)
    }

    /// Breaks the connection. All queued values are lost. The host and the device detect the loss of the connection after the supervision
    /// timeout.
    private func breakLink(at now: Duration) {
        guard isOpen else { return }
        state = .broken(noticed: now + world.radio.supervisionTimeout)
        down.removeAll()
        up.removeAll()
        wakeIfIdle()
    }

    private func end(_ error: LinkError, at now: Duration) {
        state = .closed
        world.device.disconnect(handle, at: now)
        world.forget(handle)
        ending.yield(error)
        wake.finish()
    }
}

/// The values from the device to the host.
extension RadioConnection {
    /// A value from the device to the host.
    enum UplinkValue {
        /// A response, except the response to a successful read. The associated value is the event for the host.
        case answer(LinkEvent)
        /// The response to a successful read: a whole value, or one part of a long value.
        case readPart([UInt8])
        case notification([UInt8], Channel)

        var length: Int {
            switch self {
            case .answer: 0
            case .readPart(let bytes), .notification(let bytes, _): bytes.count
            }
        }
    }

    /// The maximum number of notifications in the queue of the device's Bluetooth stack.
    private static let notificationBuffers = 16

    /// Queues a notification. Returns false if the device's Bluetooth stack has no free buffer.
    func offer(_ value: [UInt8], on channel: Channel) -> Bool {
        // The stack also accepts a notification for a broken connection. Such a notification is lost.
        guard isOpen else { return true }
        defer { wakeIfIdle() }
        if notificationsQueued >= Self.notificationBuffers || world.random.happens(world.plan.notificationRefusal) {
            wasRefused = true
            return false
        }
        guard value.count <= world.radio.maximumValueLength else { return true }
        if world.random.happens(world.plan.notificationLoss) { return true }
        notificationsQueued += 1
        up.append(.notification(value, channel))
        return true
    }

    /// Sends up to `count` queued values to the host in one connection event, in at most `RadioModel.perEvent` link-layer packets.
    func moveUp(_ count: Int, at now: Duration) {
        var budget = world.radio.perEvent
        for _ in 0..<count {
            guard isOpen, budget > 0, let first = up.first, upMeter.carries(first.length, spending: &budget) else {
                break
            }
            up.removeFirst()
            deliverToHost(first, at: now)
        }
        if wasRefused {
            wasRefused = false
            _ = world.device.poll(at: now)
        }
    }

    private func deliverToHost(_ value: UplinkValue, at now: Duration) {
        switch value {
        case .answer(let event):
            request = nil
            emit(event, [], at: now)
        case .notification(let bytes, let channel):
            notificationsQueued -= 1
            world.window.hostReceives(bytes, on: channel)
            emit(.notified(bytes, channel), bytes, at: now)
        case .readPart(let bytes):
            guard case .read(let channel, let before) = request else { return }
            let collected = before + bytes
            hasMoreToRead = bytes.count == world.radio.mtu - 1
            request = hasMoreToRead ? .read(channel, collected: collected) : nil
            if hasMoreToRead { return }
            world.window.hostReceives(collected, on: channel)
            emit(.value(collected, channel), collected, at: now)
        }
    }

    private func emit(_ event: LinkEvent, _ bytes: [UInt8], at now: Duration) {
        world.transcript.note(.toHost, bytes, at: now)
        receive(event)
        if world.faults.countHostEvent() { breakByPlan(at: now) }
    }
}

/// A first-in, first-out queue in an array. Removed elements occupy memory until the queue is empty.
struct Fifo<Element> {
    private var elements: [Element?] = []
    private var head = 0

    var count: Int { elements.count - head }
    var isEmpty: Bool { count == 0 }
    var first: Element? { head < elements.count ? elements[head] : nil }

    mutating func append(_ element: Element) { elements.append(element) }

    mutating func removeFirst() {
        elements[head] = nil
        head += 1
        if head == elements.count { removeAll() }
    }

    mutating func removeAll() {
        elements.removeAll(keepingCapacity: true)
        head = 0
    }
}
