import OTAUpdate

/// The image on its way.
extension SMPSession {
    mutating func begin(_ image: SMPImage) {
        guard var push else { return }
        if push.complete.contains(image.number) { return notListed(image) }
        if push.toErase == image.number { return erase(image) }
        if push.underWay != image.number {
            push.underWay = image.number
            push.wasOpened = false
            (push.sentOffset, push.acknowledgedOffset) = (0, 0)
            if push.furthestOffsets[image.number] == nil {
                push.furthestOffsets[image.number] = 0
                push.transfer.imageBytes += image.bytes.count
            }
            report(.phase(.transfer))
            if push.images.count > 1 { report(.note("image \(image.number), version \(image.version)")) }
        }
        push.hasActed = true
        self.push = push
        open(image)
    }

    /// The device has taken every byte of the image and does not list it. Bytes that an earlier run sent may be damaged, and a
    /// device that restarts may lose the last ones: then the image is sent again from 0, once.
    private mutating func notListed(_ image: SMPImage) {
        guard let push, push.uncertain.contains(image.number), !push.sentAgain.contains(image.number) else {
            return fail(
                UpdateError(
                    .wrongImageFormat,
                    "the device has taken every byte of the image and does not list it: its bootloader cannot start it")
            )
        }
        self.push?.sentAgain.insert(image.number)
        report(.note("the device does not list the image that it holds; the image is sent again from the beginning"))
        startOver(image)
    }

    /// Some servers continue an upload of the same file for ever, however damaged it is. An erase makes them discard it.
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

    /// Without a slot, older servers erase slot 1, and newer ones the slot of image 0 that does not run.
    mutating func erase(slot: Int) {
        ask(.erase(slot: slot == 1 ? nil : slot))
    }

    /// The slot is erased, or the device refused that, as where the slot is empty.
    mutating func begin(afterErasing number: Int) {
        guard let push, let image = push.images.first(where: { $0.number == number }) else { return }
        self.push?.toErase = nil
        self.push?.sentOffset = 0
        self.push?.acknowledgedOffset = 0
        begin(image)
    }

    private mutating func open(_ image: SMPImage) {
        let longest = device.longestFrame(valueLength: valueLength)
        guard image.canBeOpened(inPacketsOf: longest) else {
            return breakLink(LinkError(.lost, "its packets of \(longest) bytes are too short for an upload"))
        }
        let before = push?.transfer.chunkSize ?? 0
        // The longest used: the next link may carry less.
        push?.transfer.chunkSize = max(longest, before)
        if !link.preservesMessageBoundaries { push?.transfer.mtu = link.maximumValueLength + 3 }
        let delivery: SMPUpload.Delivery =
            longest > valueLength ? .fragmented : link.preservesMessageBoundaries ? .lossy : .whole
        upload = SMPUpload(
            image.bytes, digest: image.fileDigest, image: image.number, longestFrame: longest,
            window: device.window ?? SMPWindow(limit: device.mostChunks, delivery: delivery), delivery: delivery)
        stage = .exchanging
        pump()
    }

    /// The device takes another version of SMP.
    mutating func reopenUpload() {
        guard let image = imageUnderWay else { return }
        open(image)
    }

    private var imageUnderWay: SMPImage? { push?.images.first { $0.number == push?.underWay } }

    /// Sends what may be sent, and goes on when the device has it all.
    mutating func pump() {
        guard var upload else { return }
        stage = .exchanging
        if upload.isComplete { return complete(upload) }
        while let chunk = upload.nextChunk() {
            upload.sent(chunk, sequence: send(.upload(chunk)), at: now)
            if push?.firstByteAt == nil { push?.firstByteAt = now }
            push?.transfer.sentBytes += chunk.data.count
            push?.budget.sent(chunk.data.count)
        }
        let furthest = max(sentOffset, upload.sentOffset)
        push?.sentOffset = furthest
        self.upload = upload
    }

    mutating func chunkAnswered(_ sequence: UInt8, _ answer: SMPAnswer) {
        guard var upload else { return }
        let verdict: SMPUpload.Verdict
        let before = upload
        switch answer {
        case .good(let fields):
            guard let offset = fields["off"]?.integer else {
                return fail(SMPFrameError(context: "the device's answer to a chunk has no offset"))
            }
            verdict = upload.answered(sequence, offset: offset, match: fields["match"]?.bool, at: now)
        case .bad(.noMemory), .bad(.busy): verdict = upload.bufferFull(sequence, at: now)
        case .bad(let error): return fail(error.update(.upload(SMPChunk(offset: 0, data: []))))
        }
        self.upload = upload
        handleVerdict(verdict, before: before)
    }

    /// Where a frame is one value, a lost one is all that can have happened, and it is sent again; else what the device makes
    /// of the pieces is not known.
    mutating func chunkUnanswered() {
        guard let before = upload else { return }
        let isWhole = !before.isOpen || before.longestFrame <= valueLength
        guard isWhole, let verdict = upload?.timedOut() else {
            device.window?.shrink()
            return breakLink(LinkError(.timedOut, "no answer to a chunk at offset \(before.acknowledgedOffset)"))
        }
        handleVerdict(verdict, before: before)
    }

    private mutating func handleVerdict(_ verdict: SMPUpload.Verdict, before: SMPUpload) {
        guard let upload else { return }
        device.window = upload.window
        // Where chunks got lost, only the last one's answer says what is to be sent again.
        if upload.isDraining, verdict == .agreed { return }
        let offset = upload.acknowledgedOffset
        let reported = push?.acknowledgedOffset ?? 0
        switch verdict {
        case .agreed: break
        case .rewound(let resent):
            push?.budget.rewound(losesBytes: offset < reported)
            push?.transfer.gaps += 1
            push?.transfer.resentBytes += resent
            push?.sentOffset = offset
            // Only a restart makes a device forget, and then all of it.
            report(offset == 0 && reported > 0 ? .deviceReset(offset: offset) : .gap(offset: offset))
        case .stateLost: return requestImageList()
        case .impossible(let offset):
            return fail(
                UpdateError(.protocolViolation, "the device goes on at offset \(offset) of \(upload.bytes.count)"))
        }
        if upload.isOpen, !before.isOpen { opened(at: offset, of: upload.bytes.count) }
        advanced(to: offset, of: upload.bytes.count)
        if case .rewound = verdict, offset == reported {
            let doubled = Self.backoff * (1 << min(upload.rewindsHere - 1, 16))
            stage = .pausing(until: now + min(doubled, Self.longestBackoff), then: .upload)
        } else if upload.window.pause > .zero, !upload.isComplete {
            stage = .pausing(until: now + upload.window.pause, then: .upload)
        } else {
            pump()
        }
    }

    /// Before chunks are sent again that the device was too busy for; twice as long each time.
    private static let backoff = Duration.milliseconds(50)
    private static let longestBackoff = Duration.seconds(4)

    /// The device has said where it goes on: with what an earlier upload of the same file left, where there was one.
    private mutating func opened(at offset: Int, of total: Int) {
        guard var push else { return }
        let isResumed = offset > SMPChunk.openingLength
        if let number = push.underWay {
            if !isResumed { push.uncertain.remove(number) }
            if isResumed, offset > push.sentOffset { push.uncertain.insert(number) }
        }
        if push.wasOpened {
            push.transfer.resentBytes += max(0, push.sentOffset - offset)
            if offset < push.acknowledgedOffset { report(.deviceReset(offset: offset)) }
        } else if isResumed, push.transfer.resumedFrom == 0 {
            push.transfer.resumedFrom = offset
        }
        if isResumed, offset >= push.acknowledgedOffset { report(.resumed(offset: offset, total: total)) }
        push.wasOpened = true
        (push.sentOffset, push.acknowledgedOffset) = (offset, min(push.acknowledgedOffset, offset))
        self.push = push
    }

    private mutating func advanced(to offset: Int, of total: Int) {
        guard let push, offset != push.acknowledgedOffset else { return }
        self.push?.acknowledgedOffset = offset
        if offset > push.acknowledgedOffset { self.push?.budget.acknowledged() }
        let furthest = push.underWay.flatMap { push.furthestOffsets[$0] } ?? 0
        if let number = push.underWay, offset > furthest {
            self.push?.furthestOffsets[number] = offset
            self.push?.budget.advanced(by: offset - furthest)
            retry.progressed()
        }
        report(.transferred(offset: offset, total: total))
    }

    /// A server that compares says what all others leave to the bootloader.
    private mutating func digestMismatched() {
        guard let push, let image = imageUnderWay, push.digestMismatches == 0 else {
            return fail(UpdateError(.digestMismatch, "the device holds another file than the one that was sent, twice"))
        }
        self.push?.digestMismatches += 1
        report(.note("the device holds another file than the one that was sent; it is sent once more"))
        startOver(image)
    }

    private mutating func complete(_ upload: SMPUpload) {
        self.upload = nil
        guard upload.match != false else { return digestMismatched() }
        arrived()
        list = nil
        askNext()
    }

    /// The device has said that it holds the whole image, or lists it.
    mutating func arrived() {
        if let number = push?.underWay { push?.complete.insert(number) }
        if let began = push?.firstByteAt { push?.transfer.duration = now - began }
        retry.progressed()
        report(.phase(.verify))
    }

    /// Nothing is sent again before the list has said that it is not there.
    private mutating func requestImageList() {
        upload = nil
        push?.stateLosses += 1
        guard let push, push.stateLosses <= Self.mostStateLosses else {
            return fail(
                UpdateError(
                    .protocolViolation, "the device forgets the upload whenever all of it was sent, and lists no image")
            )
        }
        list = nil
        askNext()
    }

    private static let mostStateLosses = 3
}
