import OTAUpdate

/// One connection over the modelled radio, event by event: a value-like machine without a clock, used under the world's
/// lock.
final class RadioConnection {
    /// When it wants to be advanced.
    enum Next {
        case at(Duration)
        /// Nothing is queued in either direction; at this time (or never) a timer of the device goes off.
        case idle(until: Duration?)
        case over
    }

    private enum State {
        case open
        /// No packet passes any more; at this time both ends notice.
        case broken(noticed: Duration, LinkError)
        case closed
    }

    /// What travels up.
    private enum Upward {
        /// The answer to the request, as the host is told it.
        case answer(LinkEvent)
        /// The answer to a read, or to a further part of a long one.
        case readPart([UInt8])
        case notification([UInt8], Channel)

        var length: Int {
            switch self {
            case .answer: 0
            case .readPart(let bytes), .notification(let bytes, _): bytes.count
            }
        }
    }

    /// The request on its way: ATT has one at a time.
    private enum Request {
        case plain
        /// A read goes on as long as full parts come.
        case read(Channel, collected: [UInt8])
    }

    /// Values the device's stack queues before it has no buffer for a notification.
    private static let notificationBuffers = 16

    private unowned let world: SimulatedWorld
    private let handle: UInt16
    private let out: AsyncStream<LinkEvent>.Continuation
    private let start: Duration
    private var state = State.open
    /// The latest connection event; those between two that had work to do are reckoned, not run.
    private var anchor: Duration
    private var isIdle = false

    private var down = Fifo<LinkCommand>()
    /// Which value of the first command, where it is a send.
    private var valueIndex = 0
    /// Packets of the value being sent that have yet to go; 0: it has not begun.
    private var downPackets = 0
    private var request: Request?
    private var readGoesOn = false

    private var up = Fifo<Upward>()
    private var upPackets = 0
    private var notificationsQueued = 0
    private var wasRefused = false

    init(world: SimulatedWorld, handle: UInt16, out: AsyncStream<LinkEvent>.Continuation, at now: Duration) {
        self.world = world
        self.handle = handle
        self.out = out
        self.start = now
        self.anchor = now
    }

    // MARK: From the host

    /// Takes a command. True: it slept, and should be woken.
    func submit(_ command: LinkCommand) -> Bool {
        guard isOpen else { return false }
        if let (error, channel) = refusal(of: command) {
            out.yield(.refused(error, channel))
            return false
        }
        if case .send(let values, let channel) = command {
            if values.isEmpty { return false }
            if channel == VirtualGATT.data { values.forEach { world.window.hostSends($0) } }
        }
        down.append(command)
        return isIdle
    }

    /// The host ends it, now.
    func close(at now: Duration) {
        if case .closed = state { return }
        end(LinkError(.lost, "closed from this side"), at: now)
    }

    // MARK: From the device

    /// A notification. False: no buffer.
    func offer(_ value: [UInt8], on channel: Channel) -> Bool {
        // A stack without a link takes it, and drops it with the link.
        guard isOpen else { return true }
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

    // MARK: Time

    func next(at now: Duration) -> Next {
        var timer: Duration?
        if isOpen, !hasWork {
            timer = world.device.poll(at: now)
            seeToFaults(at: now)
        }
        switch state {
        case .closed: return .over
        case .broken(let noticed, _): return .at(noticed)
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

    /// Does what is due at `now`, which `next` has named.
    func advance(to now: Duration) {
        switch state {
        case .closed: break
        case .broken(let noticed, let error): if noticed <= now { end(error, at: now) }
        case .open:
            _ = world.device.poll(at: now)
            seeToFaults(at: now)
            guard hasWork, anchor + world.radio.interval <= now else { return }
            anchor += world.radio.interval
            guard !world.random.happens(world.radio.loss) else { return }
            moveUp(at: now)
            moveDown(at: now)
        }
    }

    private var isOpen: Bool { if case .open = state { true } else { false } }

    private var hasWork: Bool { !up.isEmpty || wasRefused || nextLength != nil }

    // MARK: Up

    private func moveUp(at now: Duration) {
        var budget = world.radio.perEvent
        while isOpen, budget > 0, let first = up.first {
            if upPackets == 0 { upPackets = RadioModel.packets(forValueOf: first.length) }
            let count = min(upPackets, budget)
            upPackets -= count
            budget -= count
            guard upPackets == 0 else { return }
            up.removeFirst()
            handToHost(first, at: now)
        }
        if wasRefused {
            wasRefused = false
            _ = world.device.poll(at: now)
        }
    }

    private func handToHost(_ value: Upward, at now: Duration) {
        switch value {
        case .answer(let event):
            request = nil
            tell(event, [], at: now)
        case .notification(let bytes, let channel):
            notificationsQueued -= 1
            world.window.hostHears(bytes, on: channel)
            tell(.notified(bytes, channel), bytes, at: now)
        case .readPart(let bytes):
            guard case .read(let channel, let before) = request else { return }
            let collected = before + bytes
            readGoesOn = bytes.count == world.radio.mtu - 1
            request = readGoesOn ? .read(channel, collected: collected) : nil
            if readGoesOn { return }
            world.window.hostHears(collected, on: channel)
            tell(.value(collected, channel), collected, at: now)
        }
    }

    private func tell(_ event: LinkEvent, _ bytes: [UInt8], at now: Duration) {
        world.transcript.note(.toHost, bytes, at: now)
        out.yield(event)
        if world.faults.countHostEvent() { breakLink(at: now) }
    }

    // MARK: Down

    /// Bytes of the value that goes down next; nil: nothing can go.
    private var nextLength: Int? {
        if readGoesOn { return 4 }
        guard let command = down.first else { return nil }
        switch command {
        case .send(let values, _): return values[valueIndex].count
        case .write(let bytes, _): return request == nil ? bytes.count : nil
        case .read, .subscribe: return request == nil ? 4 : nil
        }
    }

    private func moveDown(at now: Duration) {
        var budget = world.radio.perEvent
        while isOpen, budget > 0, let length = nextLength {
            if downPackets == 0 { downPackets = RadioModel.packets(forValueOf: length) }
            let count = min(downPackets, budget)
            downPackets -= count
            budget -= count
            guard downPackets == 0 else { return }
            handToDevice(at: now)
            let breaks = world.faults.countDevicePacket()
            if breaks { breakLink(at: now) }
            seeToFaults(at: now)
        }
    }

    private func handToDevice(at now: Duration) {
        if readGoesOn {
            readGoesOn = false
            guard case .read(let channel, let collected) = request else { return }
            return read(channel, offset: collected.count, at: now)
        }
        guard let command = down.first else { return }
        switch command {
        case .send(let values, let channel):
            let value = values[valueIndex]
            valueIndex += 1
            if valueIndex == values.count {
                valueIndex = 0
                down.removeFirst()
            }
            send(value, channel, at: now)
        case .write(let bytes, let channel):
            down.removeFirst()
            request = .plain
            world.transcript.note(.toDevice, bytes, at: now)
            answer(.written(channel), channel) { () throws(ATTError) in
                try world.device.write(handle, channel, bytes, at: now)
            }
        case .subscribe(let channel):
            down.removeFirst()
            request = .plain
            world.transcript.note(.toDevice, [], at: now)
            answer(.subscribed(channel), channel) { () throws(ATTError) in
                try world.device.subscribe(handle, to: channel, at: now)
            }
        case .read(let channel):
            down.removeFirst()
            request = .read(channel, collected: [])
            read(channel, offset: 0, at: now)
        }
    }

    private func send(_ value: [UInt8], _ channel: Channel, at now: Duration) {
        if channel == VirtualGATT.data, world.random.happens(world.plan.gap) {
            return world.transcript.note(.lost, value, at: now)
        }
        world.transcript.note(.toDevice, value, at: now)
        // Nobody is told what becomes of a write without response.
        try? world.device.write(handle, channel, value, at: now)
    }

    private func read(_ channel: Channel, offset: Int, at now: Duration) {
        world.transcript.note(.toDevice, [], at: now)
        do {
            let capacity = world.radio.mtu - 1
            up.append(.readPart(try world.device.read(handle, channel, offset: offset, capacity: capacity, at: now)))
        } catch {
            up.append(.answer(.refused(Self.linkError(error), channel)))
        }
    }

    private func answer(_ event: LinkEvent, _ channel: Channel, _ operation: () throws(ATTError) -> Void) {
        do {
            try operation()
            up.append(.answer(event))
        } catch {
            up.append(.answer(.refused(Self.linkError(error), channel)))
        }
    }

    private static func linkError(_ error: ATTError) -> LinkError {
        LinkError(
            error.demandsBond ? .notPermitted : .refused,
            "the device answered with ATT error 0x\(String(error.code, radix: 16, uppercase: true))")
    }

    /// What the host's own stack refuses.
    private func refusal(of command: LinkCommand) -> (error: LinkError, channel: Channel)? {
        let (channel, longest) =
            switch command {
            case .subscribe(let channel), .read(let channel): (channel, 0)
            case .write(let bytes, let channel): (channel, bytes.count)
            case .send(let values, let channel): (channel, values.reduce(0) { max($0, $1.count) })
            }
        guard world.device.channels.contains(channel) else {
            return (LinkError(.refused, "the device has no such characteristic"), channel)
        }
        guard longest <= world.radio.maximumValueLength else {
            return (
                LinkError(.refused, "a value of \(longest) bytes does not fit an MTU of \(world.radio.mtu)"), channel
            )
        }
        return nil
    }

    // MARK: Faults and the end

    private func seeToFaults(at now: Duration) {
        guard isOpen else { return }
        if let (offset, size) = world.device.imageReception, let fault = world.faults.imageReached(offset, of: size) {
            if fault == .powerFails { world.device.losePower(at: now) }
            if fault == .deviceGoesAway { world.isGone = true }
            breakLink(at: now)
        } else if !world.device.isConnected(handle) {
            breakLink(at: now)
        }
    }

    /// No packet passes any more: what is queued is lost, and both ends notice when the supervision timeout is over.
    private func breakLink(at now: Duration) {
        guard isOpen else { return }
        let noticed = now + world.radio.supervisionTimeout
        state = .broken(noticed: noticed, LinkError(.lost, "nothing was heard from the device any more"))
        world.linkBroke(at: now)
        down.removeAll()
        up.removeAll()
    }

    private func end(_ error: LinkError, at now: Duration) {
        state = .closed
        world.device.disconnect(handle, at: now)
        world.forget(handle)
        out.yield(.lost(error))
        out.finish()
    }
}
