import OTASimulator

/// The part of a world's plan that applies only to SMP.
extension Fate {
    mutating func makeBoard(_ dice: inout Dice) {
        board.reportsParameters = dice.happens(0.85)
        board.bufferSize = board.reportsParameters ? dice.one(of: [384, 512, 1024, 2475]) : 384
        board.bufferCount = dice.number(2...8)
        board.reassembles = dice.happens(0.7)
        if dice.happens(0.4) { board.erase = .wholeSlot(.milliseconds(dice.number(0...20_000))) }
        board.checksImage = dice.happens(0.5)
        board.reportsSlots = dice.happens(0.5)
        board.bootloaderMode = dice.happens(0.7) ? 3 : nil
        board.knowsFirstVersionOnly = dice.happens(0.15)
        if dice.happens(0.4) { board.answerDelay = .milliseconds(dice.number(0...60)) }
        board.restartDelay = .milliseconds(dice.number(0...1500))
        if dice.happens(0.5) { board.swapTime = .milliseconds(dice.number(0...60_000)) }
        // An SMP packet consists of many values. With a tenth of the value loss, about as many messages are lost as with the profile.
        plan.gap *= 0.1
        // SMP needs a few packets where the profile needs a hundred chunks, so the clients die after fewer events.
        for index in clients.indices { clients[index].death = clients[index].death.map { $0 / 3 + 1 } }
        if !faults.valueLengths.isEmpty, dice.happens(0.3) { faults.valueLengths.append(20) }
        if !takesPacketsInParts { radio.mtu = max(radio.mtu, Self.leastMTU) }
        // A device whose buffers become free late drops packets without an answer. Drawn last, so that all other values stay the same.
        if dice.happens(0.3) { board.releaseDelay = .milliseconds(dice.number(1...60)) }
        // The frames of a serial console share the device's buffer with their packets.
        if dice.happens(0.3) { (faults.framingOverhead, board.packetLimit) = (4, board.bufferSize - 4) }
        // A path that loses packets longer than its own limit, although the device reports longer buffers.
        if dice.happens(0.15) {
            board.packetLimit = min(board.packetLimit ?? board.bufferSize, dice.number(192...board.bufferSize))
        }
        if dice.happens(0.15) { makeLoader(&dice) }
    }

    /// A device with one slot. Its loader is found by its name or by its address.
    private mutating func makeLoader(_ dice: inout Dice) {
        var loader = VirtualSMPConfiguration.Loader()
        loader.list = dice.happens(0.5) ? .both : .applicationOnly
        loader.changesAddress = dice.happens(0.7)
        board.loader = loader
    }

    /// The smallest MTU for the first chunk if each packet must fit in one value.
    static let leastMTU = 103

    /// The host may send a packet in several values.
    var takesPacketsInParts: Bool { board.reassembles && board.reportsParameters }

    /// The device's slot may differ from the sent image. Only the bootloader detects this.
    var spoilsPackets: Bool {
        faults.corruption > 0 || !plan.wornPrograms.isEmpty || plan.gap > 0 && board.reassembles
    }

    /// An answer of the device may be lost or changed. A false offset may also change the verdict in the same answer.
    var losesAnswers: Bool {
        restartsDevice || plan.notificationLoss > 0 || !plan.dropAt.isEmpty || !plan.cutAfterHostEvents.isEmpty
            || !plan.cutAfterDevicePackets.isEmpty || faults.late > 0 || faults.staleTag > 0 || faults.garbage > 0
            || faults.lie > 0 || faults.silence != nil
    }

    /// The device may restart before the image on trial is confirmed.
    var restartsDevice: Bool {
        !plan.powerCuts.isEmpty || clients.contains { $0.powerCut != nil } || !plan.resetAt.isEmpty
            || !faults.restarts.isEmpty || faults.reverts > 0
    }
}
