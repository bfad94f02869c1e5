import OTAFirmware
import OTASigning
import OTAUpdate

/// The state of a push over all links.
struct Push {
    /// The state of the request APPLY. The device may perform APPLY even if the link ended before the answer.
    enum ApplyState: Equatable {
        case none
        /// APPLY was sent and has no answer so far.
        case asked
        /// The link was lost before the answer.
        case unanswered(since: Duration)
        case answered(at: Duration)
    }

    let bundle: VerifiedBundle
    let options: UpdateOptions

    /// True after the first answer to BEGIN of the image. Later links then resume this run's own transfer.
    var beganImage = false
    /// The number of image bytes that had been sent when the last transfer ended.
    var sentOffset = 0
    /// The number of image bytes in the last acknowledgement that arrived.
    var acknowledgedOffset = 0
    /// The highest acknowledged offset of this run. Only bytes after this offset count as progress.
    var furthestOffset = 0
    var firstByteAt: Duration?

    var mismatches = 0
    var digestMismatches = 0
    var appliedAgain = 0

    var apply = ApplyState.none
    /// The device's status before the transfer; nil if the transfer of this image did not begin in this run.
    var previous: DeviceSnapshot?

    var image: [UInt8] { bundle.image }
    var envelope: [UInt8] { bundle.envelope.bytes }
    var preflight: Preflight { Preflight(bundle: bundle, options: options) }
    var version: String { bundle.manifest.version.text }

    init(_ bundle: VerifiedBundle, _ options: UpdateOptions) {
        self.bundle = bundle
        self.options = options
    }

    /// Records the offsets of a transfer that ends, completely or not.
    mutating func note(_ transfer: ObjectTransfer) {
        sentOffset = transfer.sentOffset
        acknowledgedOffset = transfer.acknowledgedOffset
    }
}

/// The push from the first status of the device to the verified image.
extension ProfileConversation {
    private static let mostMismatches = 3

    /// Checks the bundle against the device, then sends the envelope. If the device already runs the image, only confirms it.
    mutating func beginPush(_ snapshot: DeviceSnapshot) {
        guard let push else { return }
        do throws(UpdateError) {
            if push.previous == nil { report(.phase(.preflight)) }
            switch try push.preflight.state(of: snapshot) {
            case .running: return finish(.alreadyRunning, snapshot.description)
            case .onTrial: return confirmOrLeave(snapshot)
            case .needsUpload: break
            }
            let remark = try push.preflight.check(snapshot)
            if push.previous == nil {
                if let remark { report(remark) }
                self.push?.previous = snapshot
                report(.phase(.envelope))
            }
        } catch {
            return fail(error)
        }
        beginEnvelope()
    }

    private mutating func beginEnvelope() {
        guard let push else { return }
        ask(.begin(.envelope, size: push.envelope.count, from: 0, digestPrefix: push.bundle.envelopeDigest.prefix))
    }

    /// Handles the answer to FINISH of the envelope.
    mutating func envelopeAccepted() {
        guard let push, let snapshot else { return }
        let resumes = push.options.resume != .never || push.beganImage
        if !push.beganImage, let held = snapshot.info.held, held.offset > 0,
            !resumes || held.manifestDigestPrefix != push.bundle.manifestDigest.prefix
        {
            report(.discarded(offset: held.offset))
        }
        beginImage(from: resumes ? Request.resume : 0)
    }

    private mutating func beginImage(from offset: UInt32) {
        guard let push else { return }
        ask(
            .begin(
                .image, size: push.image.count, from: offset,
                digestPrefix: push.bundle.manifest.imageDigest.prefix))
    }

    /// Handles the answer to BEGIN.
    ///
    /// - Parameter from: the highest offset that the request allows.
    mutating func began(_ object: TransferObject, from: UInt32, at position: Position) {
        guard let push, let snapshot else { return }
        let bytes = object == .envelope ? push.envelope : push.image
        guard position.offset <= bytes.count, position.offset <= from else {
            return mismatched(
                object, as: .protocolViolation, "the device continues at offset \(position.offset), which is too high")
        }
        guard position.crc == CRC32.checksum(of: bytes[..<position.offset]) else {
            guard position.offset > 0 else {
                return fail(UpdateError(.protocolViolation, "the device reports a CRC other than 0 for 0 bytes"))
            }
            // The received bytes on the device are not the start of this object, so begin again at 0.
            report(.discarded(offset: position.offset))
            return beginImage(from: 0)
        }
        let chunk = ChunkLength.planned(link: shared.link.maximumValueLength, device: snapshot.info.longestValue)
        transfer = ObjectTransfer(
            object, bytes, from: position, chunkLength: chunk, window: snapshot.info.window, at: shared.now)
        if object == .image { beganImage(at: position.offset, chunkLength: chunk) }
        pump()
    }

    private mutating func beganImage(at offset: Int, chunkLength: Int) {
        guard var push, var statistics = shared.transfer else { return }
        // Report the longest chunk of all links, because a later link may have a smaller MTU.
        statistics.chunkSize = max(statistics.chunkSize, chunkLength)
        statistics.mtu = shared.link.maximumValueLength + 3
        statistics.resentBytes += max(0, push.sentOffset - offset)
        if !push.beganImage { statistics.resumedFrom = offset }
        shared.transfer = statistics
        if !push.beganImage {
            push.beganImage = true
            push.furthestOffset = offset
            shared.budget?.advanced(by: offset)
            if offset == 0, push.options.resume == .expected { report(.nothingToResume) }
            report(.phase(.transfer))
        }
        if offset < push.acknowledgedOffset {
            shared.budget?.rewound(losesBytes: true)
            report(.deviceReset(offset: offset))
        } else if offset > 0 {
            report(.resumed(offset: offset, total: push.image.count))
        }
        push.sentOffset = offset
        push.acknowledgedOffset = offset
        self.push = push
    }

    /// Sends the chunks that the window allows, sends a flush if one is due, and completes the object.
    mutating func pump() {
        guard var transfer else { return }
        if transfer.isComplete, !isAsking { return complete(transfer) }
        while true {
            let chunks = transfer.nextChunks()
            if !chunks.isEmpty {
                shared.budget?.sent(chunks.reduce(0) { $0 + $1.count })
                if transfer.object == .image { count(chunks) }
                submit(.send(chunks, ProfileChannel.data))
            }
            guard !isAsking, let sequence = transfer.nextFlush(at: shared.now) else { break }
            if transfer.object == .image { shared.transfer?.flushes += 1 }
            ask(.sync(sequence: sequence))
        }
        self.transfer = transfer
    }

    private mutating func count(_ chunks: [[UInt8]]) {
        if push?.firstByteAt == nil { push?.firstByteAt = shared.now }
        shared.transfer?.sentBytes += chunks.reduce(0) { $0 + $1.count - ObjectTransfer.sequenceLength }
    }

    private mutating func complete(_ transfer: ObjectTransfer) {
        self.transfer = nil
        if transfer.object == .image {
            push?.note(transfer)
            uploaded(since: push?.firstByteAt)
            report(.phase(.verify))
        }
        ask(.finish(transfer.object))
    }

    /// Handles a notification of Progress.
    mutating func progressNotified(_ bytes: [UInt8]) {
        // A malformed value is ignored. A position that disagrees with the sent bytes is ignored, too. Only answers to requests can
        // cause an error.
        guard let object = transfer?.object, let progress = try? ProgressValue(parsing: bytes) else { return }
        if object == .image, progress.status == .flashFailed {
            // While a flush is open, its answer decides, because BEGIN cannot be sent before that answer.
            if !isAsking { mismatched(object, as: .flashFailed, "the device's flash failed") }
            return
        }
        if let verdict = transfer?.progressed(to: progress.position, at: shared.now) { handleVerdict(verdict) }
    }

    /// Handles the answer to a flush.
    mutating func flushed(to position: Position) {
        if let verdict = transfer?.flushed(to: position, at: shared.now) { handleVerdict(verdict) }
    }

    private mutating func handleVerdict(_ verdict: ObjectTransfer.Verdict) {
        guard let transfer else { return }
        switch verdict {
        case .agreed: break
        case .rewound(let resent):
            shared.budget?.rewound(losesBytes: false)
            if transfer.object == .image {
                shared.transfer?.gaps += 1
                shared.transfer?.resentBytes += resent
                report(.gap(offset: transfer.acknowledgedOffset))
            }
        case .mismatch:
            return mismatched(
                transfer.object, as: .protocolViolation, "the device's position does not match the sent bytes")
        }
        if transfer.object == .image { advanced(transfer) }
        pump()
    }

    private mutating func advanced(_ transfer: ObjectTransfer) {
        guard let push, transfer.acknowledgedOffset > push.acknowledgedOffset else { return }
        self.push?.note(transfer)
        shared.budget?.acknowledged()
        if transfer.acknowledgedOffset > push.furthestOffset {
            self.push?.furthestOffset = transfer.acknowledgedOffset
            shared.budget?.advanced(by: transfer.acknowledgedOffset - push.furthestOffset)
            progressed()
        }
        report(.transferred(offset: transfer.acknowledgedOffset, total: push.image.count))
    }

    /// Begins the object again: first at the last acknowledged offset, then at 0. The third mismatch fails the session.
    mutating func mismatched(_ object: TransferObject, as code: UpdateError.Code, _ context: String) {
        if let transfer, transfer.object == .image { push?.note(transfer) }
        transfer = nil
        push?.mismatches += 1
        guard let push, push.mismatches < Self.mostMismatches else { return fail(UpdateError(code, context)) }
        report(.note("\(context); the transfer begins again"))
        switch object {
        case .envelope: beginEnvelope()
        case .image: beginImage(from: push.mismatches == 1 ? UInt32(clamping: push.acknowledgedOffset) : 0)
        }
    }

    /// Sends the image once more after the device has computed another digest.
    mutating func digestMismatched() {
        guard let push, push.digestMismatches == 0 else {
            return fail(UpdateError(.digestMismatch, "the device computed a wrong digest of the image, twice"))
        }
        self.push?.digestMismatches += 1
        report(.note("the device computed a wrong digest of the image; the image is sent again"))
        beginImage(from: 0)
    }
}
