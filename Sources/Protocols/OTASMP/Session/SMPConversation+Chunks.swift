import OTAUpdate

/// The chunks of an upload and the device's answers. ``SMPUpload`` decides which chunks are sent.
extension SMPConversation {
    /// The wait before the upload sends dropped chunks again. Each further wait at the same offset is twice as long as the wait before it.
    private static let backoff = Duration.milliseconds(50)
    /// The maximum wait before the upload sends dropped chunks again.
    private static let longestBackoff = Duration.seconds(4)

    /// Sends the chunks that the window allows, or completes the upload.
    mutating func pump(_ upload: SMPUpload) {
        var upload = upload
        if upload.isComplete { return complete(upload) }
        while let chunk = upload.nextChunk() {
            let sequence = shared.nextNumber()
            send(.upload(chunk), sequence: sequence)
            upload.sent(chunk, sequence: sequence, at: shared.now)
            shared.ledger?.sent(chunk.data.count, at: shared.now)
            shared.ledger?.budget.sent(chunk.data.count)
        }
        let furthest = max(shared.ledger?.sentOffset ?? 0, upload.sentOffset)
        shared.ledger?.sentOffset = furthest
        state = .uploading(upload)
    }

    /// Handles the answer to a chunk.
    mutating func answered(_ before: SMPUpload, by frame: SMPFrame) throws(SMPFrameError) {
        let answer = try SMPAnswer(parsing: frame.body)
        // Begins the upload again with SMP version 1, because the device refused version 2.
        if device.fallsBack(answer, frame), let image = push?.underWay { return open(image) }
        var upload = before
        switch answer {
        case .good(let fields):
            guard let offset = fields["off"]?.integer else {
                return fail(SMPFrameError(context: "the device's answer to a chunk has no offset"))
            }
            let verdict = upload.answered(
                frame.sequence, offset: offset, match: fields["match"]?.bool, at: shared.now)
            continueUpload(upload, after: verdict, before: before)
        case .bad(.noMemory), .bad(.busy):
            let verdict = upload.bufferFull(frame.sequence, at: shared.now)
            continueUpload(upload, after: verdict, before: before)
        // The device has completed a chunk that lost bytes with the first bytes of the next packet, and takes the rest of this packet for
        // the start of another one. The timeout of the chunk handles this: the chunk is sent again when the device has discarded these
        // bytes.
        case .bad(let error) where upload.isOpen && upload.losesBytes && error.isMalformedRequest: return
        case .bad(let error): fail(refusal(error, of: upload))
        }
    }

    /// The maximum size in bytes of MCUboot's trailer at the end of a slot: the states of a swap with 128 sectors and 32 bytes in a write
    /// unit, rounded up to a sector of 4 KiB.
    private static let longestTrailer = 16 << 10

    /// Returns the error for a chunk that the device refused.
    ///
    /// A server refuses a chunk with a flash error if the chunk is in the space of the bootloader's trailer. A server that does not report
    /// the maximum size of an image accepts the start of such an image.
    private func refusal(_ error: SMPError, of upload: SMPUpload) -> UpdateError {
        let refused = error.update(.upload(SMPChunk(offset: 0, data: [])))
        guard refused.code == .flashFailed, let number = push?.underWay?.number,
            device.slots?.largestImages[number] == nil,
            let slot = device.slots?.largestImage(number, running: link.list?.running(number)?.slot),
            slot - upload.bytes.count < Self.longestTrailer
        else { return refused }
        return UpdateError(
            .imageTooLarge,
            "\(refused.context); the image has \(upload.bytes.count) bytes, the device's slot has \(slot) bytes, and the bootloader needs the "
                + "end of the slot for its own data")
    }

    /// Handles the timeout of a chunk.
    ///
    /// The chunk is sent again if it is the first chunk, or if each packet is one value. A later chunk can be a packet of several values,
    /// and the device may have received only some of these values. In this case the link is closed, so that the device discards the
    /// incomplete packet. The link is also closed after too many timeouts in a row.
    mutating func unanswered(_ before: SMPUpload) {
        var upload = before
        let isWhole = !before.isOpen || before.longestFrame <= valueLength
        let verdict = upload.timedOut()
        limitPackets(upload.packetLimit, of: before)
        guard isWhole, let verdict else {
            if !before.packetLimit.isTesting, !device.packetLimit.isTesting { device.window?.shrink() }
            device.packetLimit.linkFailed()
            return breakLink(LinkError(.timedOut, "no answer to a chunk at offset \(before.acknowledgedOffset)"))
        }
        continueUpload(upload, after: verdict, before: before)
    }

    /// Stores the limit of the packets' length for the next links. If the limit is smaller than before, reports this to the user.
    private mutating func limitPackets(_ limit: SMPPacketLimit, of before: SMPUpload) {
        device.packetLimit = limit
        guard let bytes = limit.bytes, bytes != before.packetLimit.bytes else { return }
        shared.ledger?.statistics.chunkSize = bytes
        report(
            .note(
                "a packet of \(before.oldestLength) bytes got no answer; the upload continues with packets of \(bytes) bytes "
                    + "at most"))
    }

    /// Continues the upload after an answer or a timeout.
    private mutating func continueUpload(_ upload: SMPUpload, after verdict: SMPUpload.Verdict, before: SMPUpload) {
        state = .uploading(upload)
        device.window = upload.window
        device.packetLimit = upload.packetLimit
        // After a lost chunk, the upload first waits for the answers to all chunks in flight. The last answer has the offset at which the
        // upload continues.
        if upload.isDraining, verdict == .agreed { return }
        let offset = upload.acknowledgedOffset
        let reported = shared.ledger?.acknowledgedOffset ?? 0
        switch verdict {
        case .agreed: break
        case .rewound(let resent):
            shared.ledger?.budget.rewound(losesBytes: offset < reported)
            shared.ledger?.gap(resent: resent)
            shared.ledger?.sentOffset = offset
            // Offset 0 usually means a restart: a server keeps the state of an upload in RAM, so a restart discards the whole upload.
            report(offset == 0 && reported > 0 ? .deviceReset(offset: offset) : .gap(offset: offset))
        case .stateLost: return stateLost(upload)
        case .impossible(let offset):
            return fail(
                UpdateError(.protocolViolation, "the device continues at offset \(offset) of \(upload.bytes.count)"))
        }
        if upload.isOpen, !before.isOpen { opened(at: offset, of: upload.bytes.count) }
        advanced(to: offset, of: upload.bytes.count)
        if case .rewound = verdict, offset == reported {
            let doubled = Self.backoff * (1 << min(upload.rewindsHere - 1, 16))
            pause(min(doubled, Self.longestBackoff), then: .upload(upload))
        } else if upload.pause > .zero, !upload.isComplete {
            pause(upload.pause, then: .upload(upload))
        } else {
            pump(upload)
        }
    }

    /// Handles the offset in the answer to the first chunk of an upload.
    ///
    /// If the offset is after the end of the first chunk, the device resumes an earlier upload of the same file.
    private mutating func opened(at offset: Int, of total: Int) {
        guard var push, var ledger = shared.ledger else { return }
        let isResumed = offset > SMPChunk.openingLength
        if let image = push.underWay {
            push[image].isUncertain = isResumed && (push[image].isUncertain || offset > ledger.sentOffset)
        }
        if push.wasOpened {
            ledger.statistics.resentBytes += max(0, ledger.sentOffset - offset)
            if offset < ledger.acknowledgedOffset { report(.deviceReset(offset: offset)) }
        } else if isResumed, ledger.statistics.resumedFrom == 0 {
            ledger.statistics.resumedFrom = offset
        }
        if isResumed, push.expectsEmptySlot {
            report(.note("the device did not erase the partial upload; the upload continues at byte \(offset)"))
        }
        push.expectsEmptySlot = false
        if !push.wasOpened, !isResumed, push.options.resume == .expected { report(.nothingToResume) }
        if isResumed, offset >= ledger.acknowledgedOffset { report(.resumed(offset: offset, total: total)) }
        push.wasOpened = true
        (ledger.sentOffset, ledger.acknowledgedOffset) = (offset, min(ledger.acknowledgedOffset, offset))
        (self.push, shared.ledger) = (push, ledger)
    }

    private mutating func advanced(to offset: Int, of total: Int) {
        guard let ledger = shared.ledger, offset != ledger.acknowledgedOffset else { return }
        if shared.ledger?.acknowledged(offset) == true { progressed() }
        report(.transferred(offset: offset, total: total, sent: ledger.statistics.sentBytes))
    }
}
