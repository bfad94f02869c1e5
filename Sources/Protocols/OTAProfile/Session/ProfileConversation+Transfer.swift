import OTAFirmware
import OTASigning
import OTAUpdate

/// The transfers of the envelope and the image.
extension ProfileConversation {
    /// The session fails at this number of mismatches (docs/ota-profile.md, "What the host does"). Exception: an encoded form of the image
    /// is left (`mismatched(_:as:_:)`).
    private static let mostMismatches = 3

    mutating func beginEnvelope() {
        guard let bundle = upload?.bundle, let info = snapshot?.info else { return }
        do throws(UpdateError) {
            let bytes = try bundle.envelope(for: info).bytes
            upload?.envelope = bytes
            ask(.begin(.envelope, size: bytes.count, from: 0, digestPrefix: SHA256.digest(of: bytes).prefix))
        } catch {
            fail(error)
        }
    }

    /// Begins the image after the device has accepted the envelope.
    mutating func beginImage(on device: DeviceSnapshot) {
        guard let upload else { return }
        if !upload.beganImage, let held = device.info.held, held.offset > 0,
            !upload.resumes || held.manifestDigestPrefix != upload.bundle.manifestDigest.prefix
        {
            report(.discarded(offset: held.offset))
        }
        beginImage(from: upload.resumes ? Request.resume : 0)
    }

    mutating func beginImage(from offset: UInt32) {
        guard var upload else { return }
        upload.expectedOffset = min(upload.expectedOffset, Int(offset))
        // A device that has the complete image needs no stream and no base.
        upload.begunForm = upload.expectedOffset < upload.image.count ? upload.encoding.form : nil
        self.upload = upload
        if let form = upload.begunForm { return ask(.beginEncoded(from: offset, base: form.requestBase)) }
        let digest = upload.bundle.manifest.imageDigest
        ask(.begin(.image, size: upload.image.count, from: offset, digestPrefix: digest.prefix))
    }

    /// Checks the position in the answer to BEGIN. If the transfer cannot start at this position, sends BEGIN again or fails the session,
    /// and returns false. `from` is the offset in the request. The device's offset must not be higher.
    mutating func isPlausible(_ position: Position, of object: TransferObject, from: UInt32) -> Bool {
        guard let bytes = upload?.bytes(of: object) else { return false }
        guard position.offset <= bytes.count, position.offset <= from else {
            mismatched(
                object, as: .protocolViolation, "the device continues at offset \(position.offset), which is too high")
            return false
        }
        guard position.crc == CRC32.checksum(of: bytes[..<position.offset]) else {
            guard position.offset > 0 else {
                fail(UpdateError(.protocolViolation, "the device reports a CRC other than 0 for 0 bytes"))
                return false
            }
            // The bytes on the device are not the first bytes of this image, so the transfer must start at 0.
            report(.discarded(offset: position.offset))
            beginImage(from: 0)
            return false
        }
        return true
    }

    /// Starts a transfer at the device's position in the plain object. `stream` is the encoded image; nil: the object is sent plain.
    mutating func start(_ object: TransferObject, at position: Position, _ stream: EncodingChoice.Stream? = nil) {
        guard let snapshot, let plain = upload?.bytes(of: object) else { return }
        let chunk = ChunkLength.planned(link: shared.link.maximumValueLength, device: snapshot.info.longestValue)
        let origin = stream == nil ? position : Position(next: position.next, offset: 0, crc: 0)
        var window = WindowSize(limit: snapshot.info.window)
        if let last = upload?.window, last.limit == window.limit { window = last }
        let transfer = ObjectTransfer(
            object, stream?.image.bytes ?? plain, from: origin, chunkLength: chunk, window: window,
            positions: stream?.positions, at: shared.now)
        state = .sending(transfer, sync: nil)
        if object == .image { beganImage(at: position.offset, transfer, chunkLength: chunk) }
        pump()
    }

    private mutating func beganImage(at offset: Int, _ transfer: ObjectTransfer, chunkLength: Int) {
        guard var upload, var ledger = shared.ledger else { return }
        // Each link can have another MTU and therefore another chunk length. The report contains the longest one.
        ledger.statistics.chunkSize = max(ledger.statistics.chunkSize, chunkLength)
        ledger.statistics.mtu = shared.link.maximumValueLength + 3
        ledger.statistics.resentBytes += upload.parts.begin(at: offset, transfer.positions)
        let hasAdvanced = ledger.advanced(to: offset)
        if !upload.beganImage {
            upload.beganImage = true
            ledger.statistics.resumedFrom = offset
            // The rewinds of the envelope do not count for the image.
            ledger.budget.acknowledged()
            if offset == 0, upload.options.resume == .expected { report(.nothingToResume) }
            report(.phase(.transfer))
        } else if hasAdvanced {
            // The device had decoded more bytes of an encoded image than it could acknowledge. These bytes count as progress now.
            upload.fruitlessLinks = 0
            progressed()
        }
        if offset < ledger.acknowledgedOffset {
            ledger.budget.rewound(losesBytes: true)
            report(.deviceReset(offset: offset))
        } else if offset > 0 {
            report(.resumed(offset: offset, total: upload.image.count))
        }
        (ledger.sentOffset, ledger.acknowledgedOffset) = (offset, offset)
        upload.hasFlashFailed = false
        upload.isEncoded = transfer.positions != nil
        (self.upload, shared.ledger) = (upload, ledger)
        reportForm(of: transfer, from: offset)
    }

    /// Sends the chunks that the window allows, and a SYNC if a flush is due. After the last acknowledgment, sends FINISH.
    mutating func pump() {
        guard case .sending(var transfer, var sync) = state else { return }
        if transfer.isComplete, sync == nil { return complete(transfer) }
        while true {
            let chunks = transfer.nextChunks()
            if !chunks.isEmpty {
                count(chunks, of: transfer.object)
                submit(.send(chunks, ProfileChannel.data))
            }
            guard sync == nil, let sequence = transfer.nextFlush(at: shared.now) else { break }
            if transfer.object == .image { shared.ledger?.statistics.flushes += 1 }
            sync = exchange(.sync(sequence: sequence))
        }
        note(transfer)
        state = .sending(transfer, sync: sync)
    }

    private mutating func count(_ chunks: [[UInt8]], of object: TransferObject) {
        let bytes = chunks.reduce(0) { $0 + $1.count }
        shared.ledger?.budget.sent(bytes)
        guard object == .image else { return }
        shared.ledger?.sent(bytes - chunks.count * ObjectTransfer.sequenceLength, at: shared.now)
    }

    /// Records the current offsets and the window of the image's transfer.
    private mutating func note(_ transfer: ObjectTransfer) {
        guard transfer.object == .image else { return }
        shared.ledger?.sentOffset = transfer.sentPlainOffset
        shared.ledger?.acknowledgedOffset = transfer.acknowledgedPlainOffset
        upload?.window = transfer.windowSize
        upload?.parts.note(sentOffset: transfer.sentOffset)
    }

    private mutating func complete(_ transfer: ObjectTransfer) {
        note(transfer)
        if transfer.object == .image {
            shared.ledger?.statistics.encodedBytes = upload?.parts.encodedBytes ?? 0
            uploaded()
            report(.phase(.verify))
        }
        ask(.finish(transfer.object))
    }

    /// Handles a notification of the characteristic Progress.
    ///
    /// - Parameter isAsking: true while a SYNC waits for its answer. The conversation then cannot send BEGIN, because only one request may
    ///   be open. The answer to the SYNC reports the error, too.
    mutating func progressNotified(_ bytes: [UInt8], _ transfer: ObjectTransfer, isAsking: Bool) {
        // Ignore a malformed notification, because the answer to the next SYNC has the position, too.
        guard let progress = try? ProgressValue(parsing: bytes) else { return }
        switch progress.status {
        case .flashFailed where transfer.object == .image:
            upload?.hasFlashFailed = true
            if !isAsking { mismatched(.image, as: .flashFailed, "the device's flash failed") }
        case .notDecoded where transfer.positions != nil: if !isAsking { notDecoded() }
        default: heard { $0.progressed(to: progress.position, at: $1) }
        }
    }

    /// Handles the position in the answer to a SYNC.
    mutating func flushed(to position: Position) {
        guard case .sending(let transfer, _) = state else { return }
        state = .sending(transfer, sync: nil)
        heard { $0.flushed(to: position, at: $1) }
    }

    /// Handles the verdict of the transfer on a position that the device reported.
    private mutating func heard(_ verdict: (inout ObjectTransfer, _ now: Duration) -> ObjectTransfer.Verdict) {
        guard case .sending(var transfer, let sync) = state else { return }
        let before = transfer.acknowledgedOffset
        let verdict = verdict(&transfer, shared.now)
        state = .sending(transfer, sync: sync)
        switch verdict {
        case .agreed: break
        case .rewound(let resent):
            shared.ledger?.budget.rewound(losesBytes: false)
            if transfer.object == .image {
                shared.ledger?.gap(resent: resent)
                report(.gap(offset: transfer.acknowledgedPlainOffset))
            }
        case .mismatch:
            note(transfer)
            return mismatched(
                transfer.object, as: .protocolViolation, "the device's position does not match the sent bytes")
        }
        if transfer.object == .image, transfer.acknowledgedOffset > before { advanced(transfer) }
        pump()
    }

    private mutating func advanced(_ transfer: ObjectTransfer) {
        guard let upload, let before = shared.ledger else { return }
        // Bytes of an incomplete chunk of an encoded image count as acknowledged, too.
        shared.ledger?.budget.acknowledged()
        let offset = transfer.acknowledgedPlainOffset
        if shared.ledger?.acknowledged(offset) == true {
            self.upload?.fruitlessLinks = 0
            progressed()
        }
        guard offset > before.acknowledgedOffset else { return }
        report(.transferred(offset: offset, total: upload.image.count, sent: before.statistics.sentBytes))
    }

    /// Begins the transfer of an object again after a position mismatch or a flash error.
    ///
    /// Both count as mismatches. After the first mismatch, the transfer of the image continues at the last acknowledged offset. After the
    /// second mismatch, the transfer starts at 0. The third mismatch fails the session with `code` and `context`. If an encoded form is
    /// left at the third mismatch of the image, the push sends the plain image from 0 instead.
    mutating func mismatched(_ object: TransferObject, as code: UpdateError.Code, _ context: String) {
        upload?.mismatches += 1
        if object == .image, upload?.mismatches == Self.mostMismatches, upload?.encoding.form != nil {
            // The encoded image may be the cause, so the push fails only after it has sent the image plain, too.
            upload?.encoding.giveUp(.noProgress)
            upload?.mismatches -= 1
        }
        guard let upload, upload.mismatches < Self.mostMismatches else { return fail(UpdateError(code, context)) }
        report(.note("\(context); the transfer begins again"))
        switch object {
        case .envelope: beginEnvelope()
        case .image: beginImage(from: upload.mismatches == 1 ? acknowledgedOffset : 0)
        }
    }

    /// Sends the image again from 0, because the device computed a wrong digest. The second wrong digest fails the session.
    mutating func digestMismatched() {
        guard let upload, upload.digestMismatches == 0 else {
            return fail(UpdateError(.digestMismatch, "the device computed a wrong digest of the image, twice"))
        }
        self.upload?.digestMismatches += 1
        if upload.encoding.form != nil { self.upload?.encoding.giveUp(.notDecoded) }
        report(.note("the device computed a wrong digest of the image; the image is sent again"))
        beginImage(from: 0)
    }

    /// The number of image bytes that the device has acknowledged, as the offset in a BEGIN.
    var acknowledgedOffset: UInt32 { UInt32(clamping: shared.ledger?.acknowledgedOffset ?? 0) }
}
