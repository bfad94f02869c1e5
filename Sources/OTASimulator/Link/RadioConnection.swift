import OTAUpdate

/// One connection over the modelled radio, connection event by connection event. It has no clock: who runs it asks when it
/// wants to be advanced. Used under the world's lock.
final class RadioConnection {
    /// When it wants to be advanced.
    enum Next {
        case at(Duration)
        /// When `wakes` says so: nothing is queued in either direction. And at this time, when a timer of the device goes
        /// off, if there is one.
        case idle(until: Duration?)
        case over
    }

    private enum State {
        case open
        /// No packet passes any more; at this time both ends notice.
        case broken(noticed: Duration)
        case closed
    }

    unowned let world: SimulatedWorld
    let handle: UInt16
    /// Where the host hears of it.
    let out: AsyncStream<LinkEvent>.Continuation
    /// An element whenever a connection that was idle is so no more.
    let wakes: AsyncStream<Void>

    private let wake: AsyncStream<Void>.Continuation
    private let start: Duration
    private var state = State.open
    /// The latest connection event. Those that would have carried nothing are reckoned, not run.
    private var anchor: Duration
    private var isIdle = false

    var down = Fifo<LinkCommand>()
    /// Which value of the first command, where that is a send.
    var valueIndex = 0
    var downMeter = PacketMeter()
    var request: Request?
    /// The host's stack has to ask for a further part of a long read.
    var hasMoreToRead = false

    var up = Fifo<UplinkValue>()
    var upMeter = PacketMeter()
    var notificationsQueued = 0
    /// The device has something to notify that it was not let.
    var wasRefused = false

    init(world: SimulatedWorld, handle: UInt16, out: AsyncStream<LinkEvent>.Continuation, at now: Duration) {
        self.world = world
        self.handle = handle
        self.out = out
        self.start = now
        self.anchor = now
        (wakes, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
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

    /// Does what is due at `now`.
    func advance(to now: Duration) {
        switch state {
        case .closed: break
        case .broken(let noticed):
            if noticed <= now { end(LinkError(.lost, "nothing was heard from the device any more"), at: now) }
        case .open:
            _ = world.device.poll(at: now)
            checkDevice(at: now)
            // Who was idle goes on with the event that `next` will name.
            guard isOpen, !isIdle, hasWork, anchor + world.radio.interval <= now else { return }
            anchor += world.radio.interval
            guard !world.random.happens(world.radio.loss) else { return }
            // What comes down now is answered in the next event.
            let waiting = up.count
            moveDown(at: now)
            moveUp(waiting, at: now)
        }
    }

    /// The host ends it, now.
    func close(at now: Duration) {
        if case .closed = state { return }
        end(LinkError(.lost, "closed from this side"), at: now)
    }

    func wakeIfIdle() { if isIdle { wake.yield() } }

    /// After each call of the device: whether a fault is due, and whether the device is still there.
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

    /// The fault plan breaks it.
    func breakByPlan(at now: Duration) {
        world.outOfReachUntil = max(world.outOfReachUntil, now + world.plan.outOfReach)
        breakLink(at: now)
    }

    /// No packet passes any more: what is queued is lost, and both ends notice when the supervision timeout is over.
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
        out.yield(.lost(error))
        out.finish()
        wake.finish()
    }
}
