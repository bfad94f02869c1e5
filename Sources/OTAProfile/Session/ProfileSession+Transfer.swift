import OTAFirmware
import OTASigning
import OTAUpdate

/// From the first look at the device to the verified image.
extension ProfileSession {
    private static let mostMismatches = 3

    /// The device has said what it is.
    mutating func begin(_ snapshot: DeviceSnapshot) {
        switch task {
        case .push: if push?.apply == Push.ApplyState.none { beginPush(snapshot) } else { checkRestart(snapshot) }
        case .status: finish(.done, snapshot.description)
        case .confirm: beginConfirm(snapshot)
        case .discard: beginDiscard(snapshot)
        case .identify(let seconds): ask(.identify(seconds: seconds))
        }
    }

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
                if let remark { report(.note(remark)) }
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

    mutating func envelopeAccepted() {
        guard let push, let snapshot else { return }
        let resumes = push.options.resume || push.beganImage
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

    mutating func began(_ object: TransferObject, from: UInt32, at position: Position) {
        guard let push, let snapshot else { return }
        let bytes = object == .envelope ? push.envelope : push.image
        guard position.offset <= bytes.count, position.offset <= from else {
            return mismatched(
                object, as: .protocolViolation, "the device goes on at offset \(position.offset), past what it may")
        }
        guard position.crc == CRC32.checksum(of: bytes[..<position.offset]) else {
            guard position.offset > 0 else {
                return fail(UpdateError(.protocolViolation, "the device gives nothing a CRC that is not 0"))
            }
            // What it holds is not this image's beginning: start over.
            report(.discarded(offset: position.offset))
            return beginImage(from: 0)
        }
        let chunk = ChunkLength.planned(link: link.maximumValueLength, device: snapshot.info.longestValue)
        transfer = ObjectTransfer(
            object, bytes, from: position, chunkLength: chunk, window: snapshot.info.window, at: now)
        if object == .image { beganImage(at: position.offset, chunkLength: chunk) }
        pump()
    }

    private mutating func beganImage(at offset: Int, chunkLength: Int) {
        guard var push else { return }
        // The longest used: the next link may carry less.
        push.transfer.chunkSize = max(push.transfer.chunkSize, chunkLength)
        push.transfer.mtu = link.maximumValueLength + 3
        if !push.beganImage {
            push.beganImage = true
            push.transfer.resumedFrom = offset
            push.furthestOffset = offset
            push.budget.advanced(by: offset)
            report(.phase(.transfer))
        }
        push.transfer.resentBytes += max(0, push.sentOffset - offset)
        if offset < push.acknowledgedOffset {
            push.budget.rewound(losesBytes: true)
            report(.deviceReset(offset: offset))
        } else if offset > 0 {
            report(.resumed(offset: offset, total: push.image.count))
        }
        push.sentOffset = offset
        push.acknowledgedOffset = offset
        self.push = push
    }

    /// Sends what may be sent, flushes where a flush is due, and goes on when the object is over.
    mutating func pump() {
        guard var transfer else { return }
        if transfer.isComplete, exchange == nil { return complete(transfer) }
        while true {
            let chunks = transfer.nextChunks()
            if !chunks.isEmpty {
                push?.budget.sent(chunks.reduce(0) { $0 + $1.count })
                if transfer.object == .image { push?.count(chunks, at: now) }
                actions.append(.link(.send(chunks, ProfileChannel.data)))
            }
            guard exchange == nil, let sequence = transfer.nextFlush(at: now) else { break }
            if transfer.object == .image { push?.transfer.flushes += 1 }
            ask(.sync(sequence: sequence))
        }
        self.transfer = transfer
    }

    private mutating func complete(_ transfer: ObjectTransfer) {
        self.transfer = nil
        if transfer.object == .image {
            push?.note(transfer)
            if let began = push?.firstByteAt { push?.transfer.duration = now - began }
            report(.phase(.verify))
        }
        ask(.finish(transfer.object))
    }

    mutating func progressed(_ bytes: [UInt8]) {
        // A Progress that cannot be read is ignored like one that disagrees: the answers are what counts.
        guard let object = transfer?.object, let progress = try? ProgressValue(parsing: bytes) else { return }
        if object == .image, progress.status == .flashFailed {
            // With a flush under way its answer comes first: one request at a time.
            if exchange == nil { mismatched(object, as: .flashFailed, "the device's flash failed") }
            return
        }
        if let verdict = transfer?.progressed(to: progress.position, at: now) { handleVerdict(verdict) }
    }

    mutating func flushed(to position: Position) {
        if let verdict = transfer?.flushed(to: position, at: now) { handleVerdict(verdict) }
    }

    private mutating func handleVerdict(_ verdict: ObjectTransfer.Verdict) {
        guard let transfer else { return }
        switch verdict {
        case .agreed: break
        case .rewound(let resent):
            push?.budget.rewound(losesBytes: false)
            if transfer.object == .image {
                push?.transfer.gaps += 1
                push?.transfer.resentBytes += resent
                report(.gap(offset: transfer.acknowledgedOffset))
            }
        case .mismatch:
            return mismatched(transfer.object, as: .protocolViolation, "the device's position is not what was sent")
        }
        if transfer.object == .image { advanced(transfer) }
        pump()
    }

    private mutating func advanced(_ state: ObjectTransfer) {
        guard let push, state.acknowledgedOffset > push.acknowledgedOffset else { return }
        self.push?.note(state)
        self.push?.budget.acknowledged()
        if state.acknowledgedOffset > push.furthestOffset {
            self.push?.furthestOffset = state.acknowledgedOffset
            self.push?.budget.advanced(by: state.acknowledgedOffset - push.furthestOffset)
            retry.progressed()
        }
        report(.transferred(offset: state.acknowledgedOffset, total: push.image.count))
    }

    /// The object is opened anew: first from the last offset that agreed, then from 0, and the third time no more.
    mutating func mismatched(_ object: TransferObject, as code: UpdateError.Code, _ context: String) {
        if let transfer, transfer.object == .image { push?.note(transfer) }
        transfer = nil
        push?.mismatches += 1
        guard let push, push.mismatches < Self.mostMismatches else { return fail(UpdateError(code, context)) }
        report(.note("\(context); the transfer is taken up anew"))
        switch object {
        case .envelope: beginEnvelope()
        case .image: beginImage(from: push.mismatches == 1 ? UInt32(clamping: push.acknowledgedOffset) : 0)
        }
    }

    mutating func digestMismatched() {
        guard let push, push.digestMismatches == 0 else {
            return fail(UpdateError(.digestMismatch, "the device's image has another digest than the bundle's, twice"))
        }
        self.push?.digestMismatches += 1
        report(.note("the device's image has another digest than the bundle's; it is sent once more"))
        beginImage(from: 0)
    }
}

extension Push {
    /// Keeps how far the image came when its transfer ends, one way or the other.
    mutating func note(_ state: ObjectTransfer) {
        sentOffset = state.sentOffset
        acknowledgedOffset = state.acknowledgedOffset
    }

    mutating func count(_ chunks: [[UInt8]], at now: Duration) {
        if firstByteAt == nil { firstByteAt = now }
        transfer.sentBytes += chunks.reduce(0) { $0 + $1.count - ObjectTransfer.sequenceLength }
    }
}
