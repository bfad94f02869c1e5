import OTASimulator

/// What becomes of a world in which SMP is spoken.
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
        // A packet is many values there, and a tenth as many of them lost spoils as many.
        plan.gap *= 0.1
        // A session has a few packets for each hundred chunks of the profile.
        for index in clients.indices { clients[index].death = clients[index].death.map { $0 / 3 + 1 } }
        if !faults.valueLengths.isEmpty, dice.happens(0.3) { faults.valueLengths.append(20) }
        if !takesPacketsInParts { radio.mtu = max(radio.mtu, Self.leastMTU) }
        // Buffers that come free late drop packets without an answer. Last, so that the rest of each world stays the same.
        if dice.happens(0.3) { board.releaseDelay = .milliseconds(dice.number(1...60)) }
    }

    /// Where each value is a packet, the first chunk needs this much.
    static let leastMTU = 103

    /// A packet may be sent in several values.
    var takesPacketsInParts: Bool { board.reassembles && board.reportsParameters }

    /// What a device holds may not be what it was sent, and only its bootloader sees to that.
    var spoilsPackets: Bool {
        faults.corruption > 0 || !plan.wornPrograms.isEmpty || plan.gap > 0 && board.reassembles
    }

    /// An answer of the device may never arrive, or arrive with another content: a lie about the offset may change the verdict
    /// beside it.
    var losesAnswers: Bool {
        restartsDevice || plan.notificationLoss > 0 || !plan.dropAt.isEmpty || !plan.cutAfterHostEvents.isEmpty
            || !plan.cutAfterDevicePackets.isEmpty || faults.late > 0 || faults.staleTag > 0 || faults.garbage > 0
            || faults.lie > 0 || faults.silence != nil
    }

    /// The device may start anew before the image on trial was confirmed.
    var restartsDevice: Bool {
        !plan.powerCuts.isEmpty || clients.contains { $0.powerCut != nil } || !plan.resetAt.isEmpty
            || !faults.restarts.isEmpty || faults.reverts > 0
    }
}
