import OTAEngine
import OTASigning
import OTASimulator
import OTAUpdate

extension ProfileWire: GauntletWire {
    static func world(
        _ fate: Fate, _ releases: [ExampleRelease], _ encoded: EncodedReleases?, seed: UInt64
    ) throws -> World<ProfileWire> {
        let largest = releases.map(\.image.count).max() ?? 0
        return try World(
            releases[0], running: encoded?.factory, radio: fate.radio, faults: fate.plan, seed: seed, age: fate.age
        ) {
            $0.offersEncodings = fate.encoding?.isOffered ?? false
            $0.offersBase = fate.encoding?.offersBase ?? false
            $0.window = fate.window
            $0.requiredSignatures = fate.signing.required
            if fate.signing.isHybrid { $0.requiredAlgorithms = Set(releases[0].keys.map(\.algorithm)) }
            if fate.signing.hasTightBuffer { $0.largestEnvelope = releases.map(\.receivedLength).max() ?? 0 }
            if let queue = fate.queue { ($0.queueLength, $0.chunkTime) = (queue.length, queue.chunkTime) }
            $0.layout = FlashLayout(slotSize: largest.roundedUp(to: 4096), writeUnit: fate.writeUnit)
        }
    }

    static func push(
        _ release: ExampleRelease, resumes: Bool, _ fate: Fate, _ encoded: EncodedReleases?
    ) -> (task: UpdateTask<VerifiedBundle>, encoder: UpdateRunner<VirtualTime>.Encoder?) {
        var options = UpdateOptions(resume: resumes ? .automatic : .never)
        if let encoded, let encoding = fate.encoding { options.bases = encoding.bases.map { encoded.bases.list[$0] } }
        return (.push(release.bundle, options), encoded?.bases.encoder(for: release))
    }

    static func checksMarks(_ fate: Fate, clients: Int) -> Bool { true }

    /// Checks that the core's record counts only bytes that are in the slot, because a later BEGIN continues from it.
    ///
    /// Not checked if the stored bytes can differ from the sent bytes: corrupted chunks, worn flash, and a false sequence number in
    /// BEGIN's answer. After such a number the host numbers its chunks wrongly, and the device stores a later chunk as the first.
    static func offence(in device: VirtualDevice, _ releases: [ExampleRelease], _ fate: Fate) -> String? {
        guard fate.faults.corruption == 0, fate.faults.lie == 0, fate.plan.wornPrograms.isEmpty,
            let recorded = device.recordedImage,
            let release = releases.first(where: { $0.manifestDigest == recorded.manifest })
        else { return nil }
        return release.image.starts(with: recorded.bytes)
            ? nil : "the device's record counts bytes that are not in the slot"
    }

    static func excuses(_ fate: Fate) -> Set<UpdateError.Code> {
        var codes: Set<UpdateError.Code> = [
            .linkLost, .noAnswer, .rolledBack, .didNotReturn, .interrupted, .deviceBusy,
        ]
        // Another client's release may be on trial, or may have raised the counter.
        if fate.clients.count > 1 { codes.formUnion([.inTrial, .protocolViolation, .counterTooLow]) }
        if fate.losesChunks { codes.insert(.noProgress) }
        if !fate.plan.wornPrograms.isEmpty { codes.formUnion([.digestMismatch, .protocolViolation]) }
        if fate.faults.deceives { codes.formUnion([.protocolViolation, .digestMismatch]) }
        // Random bytes in a Progress value can have the meaning "the flash failed".
        if fate.faults.garbage > 0 { codes.insert(.flashFailed) }
        return codes
    }

    /// Allows a window and two pages for each break.
    static func resentLimit(_ transfer: TransferReport, _ fate: Fate, _ world: World<ProfileWire>) -> Int? {
        guard !fate.faults.deceives, fate.plan.wornPrograms.isEmpty else { return nil }
        let window = fate.window * max(transfer.chunkSize, 20) + 2 * world.device.configuration.layout.pageSize
        return (transfer.disconnects + transfer.gaps + world.device.restartCount + 1) * window
    }

    /// Does nothing: the state ends after some time.
    static func clear(_ error: UpdateError.Code, _ world: World<ProfileWire>, seed: UInt64) {}
}
