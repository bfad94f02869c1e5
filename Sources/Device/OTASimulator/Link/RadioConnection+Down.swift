import OTAUpdate

/// The commands from the host to the device.
extension RadioConnection {
    /// A request that the device has not answered yet. In ATT, a host sends its next request only after the device has answered the
    /// previous request.
    enum Request {
        case plain
        /// A read of a value. The host's stack requests further parts until a part is shorter than the maximum, MTU − 1 bytes. `collected`
        /// contains the bytes of the received parts.
        case read(Channel, collected: [UInt8])
    }

    func submit(_ command: LinkCommand) {
        guard isOpen else { return }
        if let (error, channel) = refusal(of: command) {
            receive(.refused(error, channel))
            return
        }
        if case .send(let values, let channel) = command {
            if values.isEmpty { return }
            if channel == VirtualGATT.data { values.forEach { world.window.hostSends($0) } }
        }
        down.append(command)
        wakeIfIdle()
    }

    /// Returns an error if the host's own Bluetooth stack refuses the command. Returns nil if the stack accepts the command.
    private func refusal(of command: LinkCommand) -> (error: LinkError, channel: Channel)? {
        let (channel, longest) =
            switch command {
            case .subscribe(let channel), .read(let channel): (channel, 0)
            case .write(let bytes, let channel): (channel, bytes.count)
            case .send(let values, let channel): (channel, values.reduce(0) { max($0, $1.count) })
            }
        if !world.channels.contains(channel) {
            return (LinkError(.refused, "the device has no such characteristic"), channel)
        }
        if longest > min(world.radio.maximumValueLength, ChunkLength.longestAttribute) {
            let mtu = world.radio.mtu
            return (LinkError(.refused, "a value of \(longest) bytes does not fit an MTU of \(mtu)"), channel)
        }
        return nil
    }

    /// The length of the next value to the device in bytes. Nil if the host cannot send a value now. A read request and a subscription
    /// count as 4 bytes each, because each fits in one link-layer packet.
    var nextLength: Int? {
        if hasMoreToRead, !downMeter.isInMidValue { return 4 }
        guard let command = down.first else { return nil }
        switch command {
        case .send(let values, _): return values[valueIndex].count
        case .write(let bytes, _): return request == nil ? bytes.count : nil
        case .read, .subscribe: return request == nil ? 4 : nil
        }
    }

    /// Sends queued commands to the device in one connection event, in at most `RadioModel.perEvent` link-layer packets.
    func moveDown(at now: Duration) {
        var budget = world.radio.perEvent
        while isOpen, budget > 0, let length = nextLength {
            let isReadPart = hasMoreToRead && !downMeter.isInMidValue
            guard downMeter.carries(length, spending: &budget) else { return }
            if isReadPart { askForNextPart(at: now) } else { deliverToDevice(at: now) }
            if world.faults.countDevicePacket() { breakByPlan(at: now) }
            checkDevice(at: now)
        }
    }

    private func askForNextPart(at now: Duration) {
        hasMoreToRead = false
        guard case .read(let channel, let collected) = request else { return }
        read(channel, offset: collected.count, at: now)
    }

    private func deliverToDevice(at now: Duration) {
        guard let command = down.first else { return }
        switch command {
        case .send(let values, let channel):
            send(values[valueIndex], channel, at: now)
            valueIndex += 1
            guard valueIndex == values.count else { return }
            valueIndex = 0
        case .write(let bytes, let channel):
            request = .plain
            world.transcript.note(.toDevice, bytes, at: now)
            answer(.written(channel), channel) { () throws(ATTError) in
                try world.device.write(handle, channel, bytes, at: now)
            }
        case .subscribe(let channel):
            request = .plain
            world.transcript.note(.toDevice, [], at: now)
            answer(.subscribed(channel), channel) { () throws(ATTError) in
                try world.device.subscribe(handle, to: channel, on: true, at: now)
            }
        case .read(let channel):
            request = .read(channel, collected: [])
            read(channel, offset: 0, at: now)
        }
        down.removeFirst()
    }

    private func send(_ value: [UInt8], _ channel: Channel, at now: Duration) {
        if channel == world.device.dataChannel, world.random.happens(world.plan.gap) {
            return world.transcript.note(.lost, value, at: now)
        }
        world.transcript.note(.toDevice, value, at: now)
        // This call ignores the device's error, because the host gets no error for a write without response.
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
            "the device answered with ATT error 0x\(String(error.code, radix: 16, uppercase: true))",
            attributeError: error.code)
    }
}
