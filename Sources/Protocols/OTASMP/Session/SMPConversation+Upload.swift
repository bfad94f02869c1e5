import OTAUpdate

/// The uploads of a push.
extension SMPConversation {
    /// Begins or resumes the upload of an image.
    mutating func begin(_ image: SMPImage) {
        guard var push else { return }
        enter(.sending)
        if push.complete.contains(image.number) { return notListed(image) }
        if push.toErase == image.number { return erase(image) }
        if push.underWay != image.number {
            push.underWay = image.number
            push.wasOpened = false
            shared.ledger?.open(image: image.number, bytes: image.bytes.count)
            report(.phase(.transfer))
            if push.images.count > 1 { report(.note("image \(image.number), version \(image.version)")) }
        }
        push.hasActed = true
        let isFirst = push.begun.insert(image.number).inserted
        self.push = push
        if isFirst, push.options.resume == .never { return startOver(image) }
        open(image)
    }

    /// Handles an image that the device has received completely but does not list.
    ///
    /// If the received bytes may be damaged (`SMPPush.uncertain`), sends the image again from 0, but only once. In all other cases, the
    /// session fails.
    private mutating func notListed(_ image: SMPImage) {
        guard let push, push.uncertain.contains(image.number), !push.sentAgain.contains(image.number) else {
            return fail(
                UpdateError(
                    .wrongImageFormat,
                    "the device has received every byte of the image and does not list it: its bootloader cannot boot it"
                )
            )
        }
        self.push?.sentAgain.insert(image.number)
        report(.note("the device does not list the image that it received; the image is sent again from the beginning"))
        startOver(image)
    }

    /// Erases the slot of an image, and then sends the image from 0.
    ///
    /// Without the erase, some servers would resume the damaged upload at its last offset each time. They would never request the bytes
    /// from 0 on.
    private mutating func startOver(_ image: SMPImage) {
        push?.complete.remove(image.number)
        push?.toErase = image.number
        erase(image)
    }

    private mutating func erase(_ image: SMPImage) {
        guard let slot = (list ?? SMPImageList([])).slotToErase(image.number) else {
            return begin(afterErasing: image.number)
        }
        erase(slot: slot)
    }

    /// Requests the erase of a slot.
    ///
    /// The request for slot 1 has no slot number, because older servers do not support the number and always erase slot 1.
    mutating func erase(slot: Int) {
        ask(.erase(slot: slot == 1 ? nil : slot))
    }

    /// Begins the upload after the answer to an erase request. The upload begins even if the device refused the erase, because some
    /// servers refuse to erase an empty slot.
    mutating func begin(afterErasing number: Int) {
        guard let push, let image = push.images.first(where: { $0.number == number }) else { return }
        self.push?.toErase = nil
        self.push?.expectsEmptySlot = true
        shared.ledger?.sentOffset = 0
        shared.ledger?.acknowledgedOffset = 0
        begin(image)
    }

    private mutating func open(_ image: SMPImage) {
        let longest = device.packetLimit.length(of: device.longestFrame(valueLength: valueLength))
        guard image.canBeOpened(inPacketsOf: longest) else {
            return breakLink(
                LinkError(.lost, "packets of \(longest) bytes are too short for an upload", remedy: .longerValues))
        }
        let before = shared.ledger?.statistics.chunkSize ?? 0
        // The report shows the longest packet of all links. A later link may have a smaller MTU, so this does not reduce the value.
        shared.ledger?.statistics.chunkSize = device.packetLimit.length(of: max(longest, before))
        if !shared.link.preservesMessageBoundaries {
            shared.ledger?.statistics.mtu = shared.link.maximumValueLength + 3
        }
        let delivery: SMPUpload.Delivery =
            longest > valueLength ? .fragmented : shared.link.preservesMessageBoundaries ? .lossy : .whole
        upload = SMPUpload(
            image.bytes, digest: image.fileDigest, image: image.number, longestFrame: longest,
            packetLimit: device.packetLimit,
            window: device.window ?? SMPWindow(limit: device.mostChunks, delivery: delivery), delivery: delivery)
        pump()
    }

    /// Begins the upload again with SMP version 1, because the device refused version 2.
    mutating func reopenUpload() {
        guard let image = imageUnderWay else { return }
        open(image)
    }

    private var imageUnderWay: SMPImage? { push?.images.first { $0.number == push?.underWay } }

    /// Sends the chunks that the window allows, or completes the upload.
    mutating func pump() {
        guard var upload else { return }
        awaitAnswers()
        if upload.isComplete { return complete(upload) }
        while let chunk = upload.nextChunk() {
            upload.sent(chunk, sequence: send(.upload(chunk)), at: shared.now)
            shared.ledger?.sent(chunk.data.count, at: shared.now)
            shared.ledger?.budget.sent(chunk.data.count)
        }
        let furthest = max(shared.ledger?.sentOffset ?? 0, upload.sentOffset)
        shared.ledger?.sentOffset = furthest
        self.upload = upload
    }

    /// Handles the answer to a chunk.
    mutating func chunkAnswered(_ sequence: UInt8, _ answer: SMPAnswer) {
        guard var upload else { return }
        let verdict: SMPUpload.Verdict
        let before = upload
        switch answer {
        case .good(let fields):
            guard let offset = fields["off"]?.integer else {
                return fail(SMPFrameError(context: "the device's answer to a chunk has no offset"))
            }
            verdict = upload.answered(sequence, offset: offset, match: fields["match"]?.bool, at: shared.now)
        case .bad(.noMemory), .bad(.busy): verdict = upload.bufferFull(sequence, at: shared.now)
        case .bad(let error): return fail(refusal(error, of: upload))
        }
        self.upload = upload
        handleVerdict(verdict, before: before)
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
        guard refused.code == .flashFailed, let number = push?.underWay, device.slots?.largestImages[number] == nil,
            let slot = device.slots?.largestImage(number, running: list?.running(number)?.slot),
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
    mutating func chunkUnanswered() {
        guard let before = upload else { return }
        let isWhole = !before.isOpen || before.longestFrame <= valueLength
        let verdict = upload?.timedOut()
        if let upload { limitPackets(upload.packetLimit, of: before) }
        guard isWhole, let verdict else {
            if !before.packetLimit.isTesting, !device.packetLimit.isTesting { device.window?.shrink() }
            device.packetLimit.linkFailed()
            return breakLink(LinkError(.timedOut, "no answer to a chunk at offset \(before.acknowledgedOffset)"))
        }
        handleVerdict(verdict, before: before)
    }

    /// Stores the limit of the packets' length for the next links. If the limit is smaller than before, reports this to the user.
    private mutating func limitPackets(_ limit: SMPPacketLimit, of before: SMPUpload) {
        device.packetLimit = limit
        guard let bytes = limit.bytes, bytes != before.packetLimit.bytes else { return }
        shared.ledger?.statistics.chunkSize = bytes
        report(
            .note(
                "the device answers short packets, but no packet of \(before.oldestLength) bytes; the upload continues with packets of "
                    + "\(bytes) bytes at most"))
    }

    private mutating func handleVerdict(_ verdict: SMPUpload.Verdict, before: SMPUpload) {
        guard let upload else { return }
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
        case .stateLost: return requestImageList()
        case .impossible(let offset):
            return fail(
                UpdateError(.protocolViolation, "the device continues at offset \(offset) of \(upload.bytes.count)"))
        }
        if upload.isOpen, !before.isOpen { opened(at: offset, of: upload.bytes.count) }
        advanced(to: offset, of: upload.bytes.count)
        if case .rewound = verdict, offset == reported {
            let doubled = Self.backoff * (1 << min(upload.rewindsHere - 1, 16))
            pause(min(doubled, Self.longestBackoff), then: .upload)
        } else if upload.pause > .zero, !upload.isComplete {
            pause(upload.pause, then: .upload)
        } else {
            pump()
        }
    }

    /// The wait before the upload sends dropped chunks again. Each further wait at the same offset is twice as long as the wait before it.
    private static let backoff = Duration.milliseconds(50)
    /// The maximum wait before the upload sends dropped chunks again.
    private static let longestBackoff = Duration.seconds(4)

    /// Handles the offset in the answer to the first chunk of an upload.
    ///
    /// If the offset is after the end of the first chunk, the device resumes an earlier upload of the same file.
    private mutating func opened(at offset: Int, of total: Int) {
        guard var push, var ledger = shared.ledger else { return }
        let isResumed = offset > SMPChunk.openingLength
        if let number = push.underWay {
            if !isResumed { push.uncertain.remove(number) }
            if isResumed, offset > ledger.sentOffset { push.uncertain.insert(number) }
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

    /// Sends the image again from 0, because the bytes that the device received do not have the file's digest. A second mismatch fails the
    /// session.
    ///
    /// Only some servers compute the digest. On other devices, the bootloader detects the damaged image after the restart.
    private mutating func digestMismatched() {
        guard let push, let image = imageUnderWay, push.digestMismatches == 0 else {
            return fail(UpdateError(.digestMismatch, "the device received another file than the sent one, twice"))
        }
        self.push?.digestMismatches += 1
        report(.note("the device received another file than the sent one; the image is sent again"))
        startOver(image)
    }

    private mutating func complete(_ upload: SMPUpload) {
        self.upload = nil
        guard upload.match != false else { return digestMismatched() }
        arrived()
        list = nil
        askNext()
    }

    /// Records that the device has received the whole image. The device's last offset or image list shows this.
    mutating func arrived() {
        if let number = push?.underWay { push?.complete.insert(number) }
        uploaded()
        progressed()
        report(.phase(.verify))
    }

    /// Requests the image list. This is necessary if all bytes of the image were sent, but the device reports that no upload is in
    /// progress.
    ///
    /// The list shows whether the device has the whole image, or has lost the image at a restart.
    private mutating func requestImageList() {
        // A rewind before this answer may have lowered the offset. But all bytes were sent, so a listed image needs no upload.
        shared.ledger?.sentOffset = upload?.bytes.count ?? 0
        upload = nil
        push?.stateLosses += 1
        guard let push, push.stateLosses <= Self.mostStateLosses else {
            return fail(
                UpdateError(
                    .protocolViolation, "the device discards each complete upload and does not list the image")
            )
        }
        list = nil
        askNext()
    }

    /// The maximum of `SMPPush.stateLosses`. One more loss fails the session.
    private static let mostStateLosses = 3
}
