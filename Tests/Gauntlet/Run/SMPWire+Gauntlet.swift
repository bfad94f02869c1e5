import OTASMP
import OTASimulator
import OTAUpdate

/// SMP promises less than the profile (docs/smp.md): what is in a slot may be checked by nobody before the bootloader does.
extension SMPWire: GauntletWire {
    static func world(_ fate: Fate, _ releases: [SMPRelease], seed: UInt64) throws -> World<SMPWire> {
        let largest = releases.map(\.image.count).max() ?? 0
        return try World(releases[0], radio: fate.radio, faults: fate.plan, seed: seed) {
            $0 = fate.board
            $0.trustedKeys = releases.map(\.key)
            $0.layout = FlashLayout(slotSize: largest.roundedUp(to: 4096), writeUnit: fate.writeUnit)
        }
    }

    /// An upload is always resumed.
    static func push(_ release: SMPRelease, resumes: Bool) -> UpdateTask<[SMPImage]> {
        .push([SMPImage(release.verified)], UpdateOptions())
    }

    /// Where the server compares, a client knows to which its verdict gets through. The list says nothing of it.
    static func checksMarks(_ fate: Fate, clients: Int) -> Bool {
        if fate.spoilsPackets { return fate.board.checksImage && clients == 1 && !fate.losesAnswers }
        // An image whose last bytes are missing may be listed.
        return !fate.restartsDevice
    }

    /// It remembers nothing.
    static func offence(in device: VirtualSMPDevice, _ releases: [SMPRelease], _ fate: Fate) -> String? { nil }

    static func excuses(_ fate: Fate) -> Set<UpdateError.Code> {
        var codes: Set<UpdateError.Code> = [.linkLost, .noAnswer, .didNotReturn, .interrupted, .deviceBusy]
        if fate.losesChunks { codes.insert(.noProgress) }
        if fate.restartsDevice { codes.insert(.rolledBack) }
        // Another client's image may wait for its start, have it just then, or be on trial.
        if fate.clients.count > 1 { codes.formUnion([.inTrial, .rolledBack, .noSuchDevice]) }
        if fate.spoilsPackets {
            codes.formUnion([.rolledBack, .digestMismatch, .wrongImageFormat, .protocolViolation])
        }
        if fate.faults.deceives { codes.formUnion([.protocolViolation, .wrongImageFormat]) }
        // An answer in several values of which one got lost is none; the third such answer is told.
        if fate.plan.notificationLoss > 0 { codes.insert(.protocolViolation) }
        // What is spoilt may ask for anything.
        if fate.faults.corruption > 0 { codes.formUnion([.imageTooLarge, .refusedByPolicy, .unsupportedDevice]) }
        // Also where the question for it got lost, a device is taken to want each packet in one value.
        if !fate.faults.valueLengths.isEmpty || fate.radio.mtu < Fate.leastMTU { codes.insert(.unsupportedDevice) }
        return codes
    }

    /// As many packets as there are buffers for each break, and the whole image where the device has forgotten what it had.
    static func resentLimit(_ transfer: TransferReport, _ fate: Fate, _ world: World<SMPWire>) -> Int? {
        guard !fate.faults.deceives, !fate.spoilsPackets else { return nil }
        let window = fate.board.bufferCount * transfer.chunkSize
        return (transfer.disconnects + transfer.gaps + 1) * window + world.device.restartCount * transfer.imageBytes
    }

    /// Another update under way is given up; one that waits for its start gets it first, by pulling the plug.
    static func clear(_ error: UpdateError.Code, _ world: World<SMPWire>, seed: UInt64) throws {
        guard error == .inTrial else { return }
        guard try world.run([.discard], seed: seed)[0].error == .inTrial else { return }
        world.device.losePower(at: world.device.now)
    }
}
