import OTAFirmware
import OTASigning
import OTAUpdate

/// The state of a push that remains from one link to the next.
struct Push {
    /// The state of the request APPLY. The device may perform APPLY even if the link is lost before the answer.
    enum ApplyState: Equatable {
        /// APPLY was not sent.
        case none
        /// APPLY was sent, and the conversation waits for the answer.
        case asked
        /// The link was lost before the answer.
        case unanswered(since: Duration)
        /// The device answered APPLY with *ok*, or the device's status shows that the device performed APPLY.
        case answered(at: Duration)
    }

    let bundle: VerifiedBundle
    let options: UpdateOptions

    /// True after the device accepted BEGIN of the image in this session. From then on, each new link resumes the transfer, even with
    /// `UpdateOptions.Resume.never`.
    var beganImage = false
    /// The forms in which the image can be sent, and the current form.
    var encoding: EncodingChoice
    /// The form of the last BEGIN of the image. Nil if this form was plain, or if no BEGIN of the image was sent.
    var begunForm: EncodingChoice.Form?
    /// The form in the last report `encoding`; nil if no such report was sent.
    var reportedForm: EncodingChoice.Form?
    var hasReportedPlain = false
    /// The image offset from which the next encoded stream probably starts.
    var expectedOffset = 0
    /// True if the current or last transfer of the image is encoded.
    var isEncoded = false
    /// True after the device reported a flash error during the current transfer.
    var hasFlashFailed = false
    /// How many times the device could not decode the encoded image.
    var undecoded = 0
    /// How many open links in a row were lost after BEGIN of an encoded image, without progress on any of them.
    var fruitlessLinks = 0
    /// The window at the end of the last transfer of the image; nil before. The next transfer starts with it: a device whose queue is short,
    /// or a slow link, is the same after a reconnection.
    var window: WindowSize?
    /// The parts that this session has sent.
    var parts = SentParts()
    /// The offset of the next image chunk, as last recorded by `note(_:)` or at BEGIN. For an encoded image, it is an estimate.
    var sentOffset = 0
    /// The number of image bytes that the device has acknowledged, as last recorded by `note(_:)` or at BEGIN.
    var acknowledgedOffset = 0
    /// The highest acknowledged image offset of this session. Only bytes after this offset count as progress.
    var furthestOffset = 0
    /// The time at which this session sent the first image chunk; nil if no image chunk was sent.
    var firstByteAt: Duration?

    /// The number of position mismatches and flash errors in this session. A mismatch that makes the push change to the plain image is not
    /// counted.
    ///
    /// A position mismatch is a position from the device that contradicts the sent bytes.
    var mismatches = 0
    /// How many times the device computed a wrong digest of the image.
    var digestMismatches = 0
    /// How many times the push began again because an APPLY had no effect.
    var appliedAgain = 0

    var apply = ApplyState.none
    /// The device's status before this session sent the envelope; nil if the envelope was not sent.
    var previous: DeviceSnapshot?

    var image: [UInt8] { bundle.image }
    var envelope: [UInt8] { bundle.envelope.bytes }
    var preflight: Preflight { Preflight(bundle: bundle, options: options) }
    var version: String { bundle.manifest.version.text }

    init(_ bundle: VerifiedBundle, _ options: UpdateOptions, namedBases: Set<Int>) {
        self.bundle = bundle
        self.options = options
        encoding = EncodingChoice(imageSize: bundle.image.count, namedBases: namedBases)
    }

    /// Records the current offsets and the window of the image's transfer.
    mutating func note(_ transfer: ObjectTransfer) {
        sentOffset = transfer.sentPlainOffset
        acknowledgedOffset = transfer.acknowledgedPlainOffset
        window = transfer.windowSize
        parts.note(sentOffset: transfer.sentOffset)
    }
}

/// The first part of a push, until the device has verified the image.
extension ProfileConversation {
    /// The session fails at this number of mismatches (docs/ota-profile.md, "What the host does"). Exception: an encoded form of the image
    /// is left (`mismatched(_:as:_:)`).
    private static let mostMismatches = 3

    /// Starts a push with the device's status on a new link.
    ///
    /// If the device already runs the bundle's image permanently, the push ends. If the device runs this image on trial, the push continues
    /// with `confirmOrLeave(_:)`. In all other cases, the conversation compares the bundle with the device's properties, and begins the
    /// transfer of the envelope. A dry run ends before the first change on the device.
    mutating func beginPush(_ snapshot: DeviceSnapshot) {
        guard let push else { return }
        do throws(UpdateError) {
            if push.previous == nil { report(.phase(.preflight)) }
            switch try push.preflight.state(of: snapshot) {
            case .running: return finish(.alreadyRunning, snapshot.description)
            case .onTrial:
                guard push.options.isDryRun, push.options.ending != .trial else { return confirmOrLeave(snapshot) }
                return finish(.wouldUpdate(UpdatePlan(bytes: 0, discards: 0)), snapshot.description)
            case .needsUpload where push.options.onlyConfirms:
                throw UpdateError(.notInTrial, "version \(snapshot.version) is not on trial")
            case .needsUpload: break
            }
            let remark = try push.preflight.check(snapshot)
            if push.previous == nil {
                if let remark { report(remark) }
                if push.options.isDryRun { return endDryRun(push.preflight.plan(for: snapshot), snapshot) }
                self.push?.previous = snapshot
                enter(.sending)
                report(.phase(.envelope))
            }
        } catch {
            return fail(error)
        }
        prepareEncoding(snapshot)
        beginEnvelope()
    }

    private mutating func endDryRun(_ plan: UpdatePlan, _ snapshot: DeviceSnapshot) {
        if plan.resumeFrom == 0, push?.options.resume == .expected { report(.nothingToResume) }
        planEncoding(plan, snapshot)
    }

    private mutating func beginEnvelope() {
        guard let push else { return }
        ask(.begin(.envelope, size: push.envelope.count, from: 0, digestPrefix: push.bundle.envelopeDigest.prefix))
    }

    /// Handles the answer *ok* to FINISH of the envelope.
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

    mutating func beginImage(from offset: UInt32) {
        guard var push else { return }
        awaited = nil
        push.expectedOffset = min(push.expectedOffset, Int(offset))
        // A device that has the complete image needs no stream and no base.
        push.begunForm = push.expectedOffset < push.image.count ? push.encoding.form : nil
        self.push = push
        if let form = push.begunForm { return ask(.beginEncoded(from: offset, base: form.requestBase)) }
        ask(
            .begin(
                .image, size: push.image.count, from: offset,
                digestPrefix: push.bundle.manifest.imageDigest.prefix))
    }

    /// Handles the answer *ok* to BEGIN: starts the transfer at the device's position.
    ///
    /// - Parameter from: the offset in the request. The device's offset must not be higher.
    mutating func began(_ object: TransferObject, from: UInt32, at position: Position) {
        guard let push, isPlausible(position, of: object, from: from) else { return }
        let bytes = object == .envelope ? push.envelope : push.image
        start(object, bytes, at: position)
    }

    /// Checks the position in the answer to BEGIN. If the transfer cannot start at this position, sends BEGIN again or fails the session,
    /// and returns false.
    mutating func isPlausible(_ position: Position, of object: TransferObject, from: UInt32) -> Bool {
        guard let push else { return false }
        let bytes = object == .envelope ? push.envelope : push.image
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

    /// Starts a transfer.
    ///
    /// - Parameters:
    ///   - position: the device's position in the plain object.
    ///   - bytes: the object's bytes; with `positions`, the stream.
    ///   - positions: the positions of an encoded image.
    mutating func start(
        _ object: TransferObject, _ bytes: [UInt8], at position: Position, _ positions: StreamPositions? = nil
    ) {
        guard let snapshot else { return }
        let chunk = ChunkLength.planned(link: shared.link.maximumValueLength, device: snapshot.info.longestValue)
        let origin = positions == nil ? position : Position(next: position.next, offset: 0, crc: 0)
        var window = WindowSize(limit: snapshot.info.window)
        if let last = push?.window, last.limit == window.limit { window = last }
        transfer = ObjectTransfer(
            object, bytes, from: origin, chunkLength: chunk, window: window, positions: positions, at: shared.now)
        if object == .image { beganImage(at: position.offset, positions, chunkLength: chunk) }
        pump()
    }

    private mutating func beganImage(at offset: Int, _ positions: StreamPositions?, chunkLength: Int) {
        guard var push, var statistics = shared.transfer else { return }
        // Each link can have another MTU and therefore another chunk length. The report contains the longest one.
        statistics.chunkSize = max(statistics.chunkSize, chunkLength)
        statistics.mtu = shared.link.maximumValueLength + 3
        statistics.resentBytes += push.parts.begin(at: offset, positions)
        if !push.beganImage { statistics.resumedFrom = offset }
        shared.transfer = statistics
        if !push.beganImage {
            push.beganImage = true
            push.furthestOffset = offset
            shared.budget?.advanced(by: offset)
            if offset == 0, push.options.resume == .expected { report(.nothingToResume) }
            report(.phase(.transfer))
        } else if offset > push.furthestOffset {
            // The device had decoded more bytes of an encoded image than it could acknowledge. These bytes count as progress now.
            shared.budget?.advanced(by: offset - push.furthestOffset)
            push.furthestOffset = offset
            push.fruitlessLinks = 0
            progressed()
        }
        if offset < push.acknowledgedOffset {
            shared.budget?.rewound(losesBytes: true)
            report(.deviceReset(offset: offset))
        } else if offset > 0 {
            report(.resumed(offset: offset, total: push.image.count))
        }
        push.sentOffset = offset
        push.acknowledgedOffset = offset
        push.hasFlashFailed = false
        push.isEncoded = positions != nil
        self.push = push
        reportForm(from: offset)
    }

    /// Sends the chunks that the window allows, and a SYNC if a flush is due. After the last acknowledgment, sends FINISH.
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
            shared.transfer?.encodedBytes = push?.parts.encodedBytes ?? 0
            uploaded(since: push?.firstByteAt)
            report(.phase(.verify))
        }
        ask(.finish(transfer.object))
    }

    /// Handles a notification of the characteristic Progress.
    mutating func progressNotified(_ bytes: [UInt8]) {
        // Ignore a malformed notification, because the answer to the next SYNC has the position, too.
        guard let object = transfer?.object, let progress = try? ProgressValue(parsing: bytes) else { return }
        if object == .image, progress.status == .flashFailed {
            // While a SYNC waits for its answer, the conversation cannot send BEGIN, because only one request may be open. The answer to
            // the SYNC reports the flash error, too.
            push?.hasFlashFailed = true
            if !isAsking { mismatched(object, as: .flashFailed, "the device's flash failed") }
            return
        }
        if transfer?.positions != nil, progress.status == .notDecoded {
            if !isAsking { notDecoded() }
            return
        }
        let before = transfer?.acknowledgedOffset ?? 0
        if let verdict = transfer?.progressed(to: progress.position, at: shared.now) {
            handleVerdict(verdict, since: before)
        }
    }

    /// Handles the position in the answer to a SYNC.
    mutating func flushed(to position: Position) {
        let before = transfer?.acknowledgedOffset ?? 0
        if let verdict = transfer?.flushed(to: position, at: shared.now) { handleVerdict(verdict, since: before) }
    }

    /// Handles the verdict on a position that the device reported.
    ///
    /// - Parameter before: the acknowledged offset of `transfer` before the position was reported.
    private mutating func handleVerdict(_ verdict: ObjectTransfer.Verdict, since before: Int) {
        guard let transfer else { return }
        switch verdict {
        case .agreed: break
        case .rewound(let resent):
            shared.budget?.rewound(losesBytes: false)
            if transfer.object == .image {
                shared.transfer?.gaps += 1
                shared.transfer?.resentBytes += resent
                report(.gap(offset: transfer.acknowledgedPlainOffset))
            }
        case .mismatch:
            return mismatched(
                transfer.object, as: .protocolViolation, "the device's position does not match the sent bytes")
        }
        if transfer.object == .image { advanced(transfer, since: before) }
        pump()
    }

    private mutating func advanced(_ transfer: ObjectTransfer, since before: Int) {
        guard let push, transfer.acknowledgedOffset > before else { return }
        self.push?.note(transfer)
        shared.budget?.acknowledged()
        let offset = transfer.acknowledgedPlainOffset
        if offset > push.furthestOffset {
            self.push?.furthestOffset = offset
            self.push?.fruitlessLinks = 0
            shared.budget?.advanced(by: offset - push.furthestOffset)
            progressed()
        }
        guard offset > push.acknowledgedOffset else { return }
        report(
            .transferred(offset: offset, total: push.image.count, sent: shared.transfer?.sentBytes ?? 0))
    }

    /// Begins the transfer of an object again after a position mismatch or a flash error.
    ///
    /// A position mismatch and a flash error both count as mismatches. After the first mismatch, the transfer of the image continues at the
    /// last acknowledged offset. After the second mismatch, the transfer starts at 0. The third mismatch fails the session. If
    /// an encoded form is left at the third mismatch of the image, the push sends the plain image from 0 instead.
    ///
    /// - Parameters:
    ///   - code: the error code with which the session fails.
    ///   - context: the description of the mismatch for the user.
    mutating func mismatched(_ object: TransferObject, as code: UpdateError.Code, _ context: String) {
        if let transfer, transfer.object == .image { push?.note(transfer) }
        transfer = nil
        push?.mismatches += 1
        if object == .image, push?.mismatches == Self.mostMismatches, push?.encoding.form != nil {
            // The encoded image may be the cause, so the push fails only after it has sent the image plain, too.
            push?.encoding.giveUp(.noProgress)
            push?.mismatches -= 1
        }
        guard let push, push.mismatches < Self.mostMismatches else { return fail(UpdateError(code, context)) }
        report(.note("\(context); the transfer begins again"))
        switch object {
        case .envelope: beginEnvelope()
        case .image: beginImage(from: push.mismatches == 1 ? UInt32(clamping: push.acknowledgedOffset) : 0)
        }
    }

    /// Sends the image again from 0, because the device computed a wrong digest. The second wrong digest fails the session.
    mutating func digestMismatched() {
        guard let push, push.digestMismatches == 0 else {
            return fail(UpdateError(.digestMismatch, "the device computed a wrong digest of the image, twice"))
        }
        self.push?.digestMismatches += 1
        if push.encoding.form != nil { self.push?.encoding.giveUp(.notDecoded) }
        report(.note("the device computed a wrong digest of the image; the image is sent again"))
        beginImage(from: 0)
    }
}
