import OTAEngine
import OTASMP
import OTASimulator
import OTAUpdate

/// SMP guarantees less than the profile (docs/smp.md): possibly only the bootloader checks the content of a slot.
extension SMPWire: GauntletWire {
    static func world(_ fate: Fate, _ releases: [SMPRelease], _: EncodedReleases?, seed: UInt64) throws -> World<
        SMPWire
    > {
        let largest = releases.map(\.image.count).max() ?? 0
        return try World(releases[0], radio: fate.radio, faults: fate.plan, seed: seed) {
            $0 = fate.board
            $0.trustedKeys = releases.map(\.key)
            $0.layout = FlashLayout(slotSize: largest.roundedUp(to: 4096), writeUnit: fate.writeUnit)
        }
    }

    /// Returns a push. It always resumes an upload.
    static func push(
        _ release: SMPRelease, resumes: Bool, _ fate: Fate, _: EncodedReleases?
    ) -> (task: UpdateTask<[SMPImage]>, encoder: UpdateRunner<VirtualTime>.Encoder?) {
        let ending = fate.board.loader == nil ? UpdateOptions.Ending.confirm : .permanent
        return (.push([SMPImage(release.verified)], UpdateOptions(ending: ending)), nil)
    }

    /// If packets can be corrupted, only the server's comparison shows it. Its verdict must reach the client, because the image list
    /// does not contain it.
    static func checksMarks(_ fate: Fate, clients: Int) -> Bool {
        if fate.board.loader != nil { return false }
        if fate.spoilsPackets { return fate.board.checksImage && clients == 1 && !fate.losesAnswers }
        // An image whose last bytes are missing may be listed.
        return !fate.restartsDevice
    }

    /// Returns nil: the server keeps no record of an upload.
    static func offence(in device: VirtualSMPDevice, _ releases: [SMPRelease], _ fate: Fate) -> String? { nil }

    static func excuses(_ fate: Fate) -> Set<UpdateError.Code> {
        var codes: Set<UpdateError.Code> = [.linkLost, .noAnswer, .didNotReturn, .interrupted, .deviceBusy]
        if fate.losesChunks { codes.insert(.noProgress) }
        if fate.restartsDevice { codes.insert(.rolledBack) }
        if fate.board.loader != nil {
            if fate.restartsDevice { codes.formUnion([.protocolViolation, .unsupportedDevice]) }
            // A loader that has lost its name is found only by its own address.
            if fate.restartsDevice { codes.insert(.noSuchDevice) }
            // A lost answer can hide the restart.
            if fate.spoilsPackets || fate.restartsDevice { codes.insert(.imageNotRunning) }
        }
        // Another client's image may be pending, booting, or on trial.
        if fate.clients.count > 1 { codes.formUnion([.inTrial, .rolledBack, .noSuchDevice]) }
        if fate.spoilsPackets {
            codes.formUnion([.rolledBack, .digestMismatch, .wrongImageFormat, .protocolViolation])
        }
        if fate.faults.deceives { codes.formUnion([.protocolViolation, .wrongImageFormat]) }
        // An answer is invalid if one of its values is lost. The third invalid answer ends the push.
        if fate.plan.notificationLoss > 0 { codes.insert(.protocolViolation) }
        // A corrupted request can request anything.
        if fate.faults.corruption > 0 { codes.formUnion([.imageTooLarge, .refusedByPolicy, .unsupportedDevice]) }
        // If the answer about its buffers is lost, the host assumes that the device needs each packet in one value.
        if !fate.faults.valueLengths.isEmpty || fate.radio.mtu < Fate.leastMTU { codes.insert(.unsupportedDevice) }
        return codes
    }

    /// Allows one packet per buffer for each break, and the whole image for each restart in which the device lost its upload state.
    static func resentLimit(_ transfer: TransferReport, _ fate: Fate, _ world: World<SMPWire>) -> Int? {
        guard !fate.faults.deceives, !fate.spoilsPackets else { return nil }
        let window = fate.board.bufferCount * transfer.chunkSize
        return (transfer.disconnects + transfer.gaps + 1) * window + world.device.restartCount * transfer.imageBytes
    }

    /// Discards another client's update. If its image is still pending, cuts the power, so that the device boots it first.
    static func clear(_ error: UpdateError.Code, _ world: World<SMPWire>, seed: UInt64) throws {
        guard error == .inTrial else { return }
        guard try world.run([.discard()], seed: seed)[0].error == .inTrial else { return }
        world.device.losePower(at: world.device.now)
    }
}
