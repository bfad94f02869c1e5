import OTAUpdate

/// Values from the device to the host.
extension RadioConnection {
    /// A value from the device to the host.
    enum UplinkValue {
        /// The response to the pending request, as an event for the host.
        case answer(LinkEvent)
        /// The response to a read, or to a further part of a long read.
        case readPart([UInt8])
        case notification([UInt8], Channel)

        var length: Int {
            switch self {
            case .answer: 0
            case .readPart(let bytes), .notification(let bytes, _): bytes.count
            }
        }
    }

    /// The number of notifications that the device's stack can queue.
    private static let notificationBuffers = 16

    /// Queues a notification. Returns false if the device's stack has no buffer.
    func offer(_ value: [UInt8], on channel: Channel) -> Bool {
        // On a broken link, the stack accepts the notification and discards it together with the link.
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

    /// Sends the first `count` values until the packets of a connection event are used up.
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
        out.yield(event)
        if world.faults.countHostEvent() { breakByPlan(at: now) }
    }
}
