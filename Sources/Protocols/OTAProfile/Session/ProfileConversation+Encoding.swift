import OTAFirmware
import OTASigning
import OTAUpdate

/// The transfer of an encoded image in a push. The encoded image is the delta from the running image, or the compressed image.
///
/// A failure of an encoded image does not fail the push: the push sends BEGIN again, usually with the next form of ``EncodingChoice``.
/// After the first decoding error, it uses the same form again. The last form is the plain image.
extension ProfileConversation {
    /// The maximum time that the conversation waits for the encoder.
    private static let encodingLimit = Duration.seconds(60)
    /// If the device has failed this number of times to decode the stream, the conversation sends the rest of the image plain.
    private static let mostUndecoded = 2

    /// Chooses the encoded forms for the device, and requests the encoded image from the offset at which the transfer probably starts. A
    /// push then sends the envelope while the encoder works.
    mutating func prepareEncoding(_ snapshot: DeviceSnapshot) {
        guard let upload else { return }
        takeEncoded()
        for note in self.upload?.encoding.choose(for: snapshot, upload.options) ?? [] { report(.note(note)) }
        let held = snapshot.info.held
        self.upload?.expectedOffset =
            upload.resumes && held?.manifestDigestPrefix == upload.bundle.manifestDigest.prefix ? held?.offset ?? 0 : 0
        requestStream()
    }

    mutating func takeEncoded() {
        guard let (request, result) = upload?.encoded.take() else { return }
        if let note = upload?.encoding.receive(request, result) { report(.note(note)) }
    }

    mutating func requestStream() {
        guard let offset = upload?.expectedOffset, let request = upload?.encoding.request(from: offset) else { return }
        encode(request)
    }

    /// Handles the answer *ok* to BEGIN of the encoded image.
    ///
    /// - Parameter from: the offset in the request. The device's offset must not be higher.
    mutating func beganEncoded(from: UInt32, at position: Position) {
        guard let upload, isPlausible(position, of: .image, from: from) else { return }
        // A complete image needs no stream.
        guard position.offset < upload.image.count else { return start(.image, at: position) }
        state = .awaitingStream(position, due: shared.now + Self.encodingLimit)
        continueEncoded(at: position)
    }

    /// Sends the encoded image from the device's offset. If the stream from this offset is not ready, waits for the encoder. A result of
    /// the encoder can remove the form that the last BEGIN used. In this case, sends BEGIN with the next form.
    mutating func continueEncoded(at position: Position) {
        upload?.expectedOffset = position.offset
        requestStream()
        guard let upload, let form = upload.encoding.form, form == upload.begunForm else {
            return beginImage(from: UInt32(clamping: position.offset))
        }
        guard let stream = upload.encoding.stream(from: position.offset) else { return }
        self.upload?.begunForm = form
        if let base = form.base { shared.ledger?.statistics.base = base }
        shared.ledger?.statistics.encoding = .lzma2
        start(.image, at: position, stream)
    }

    /// Sends the rest of the image plain, because the encoder was too slow.
    mutating func stopAwaiting(at position: Position) {
        upload?.encoding.giveUp(.tooLarge)
        beginImage(from: UInt32(clamping: position.offset))
    }

    /// Sends BEGIN with the next form, because the device refused the encoded image. If the device refused the base, the next form is the
    /// next one in ``EncodingChoice``. After all other refusals, it is the plain image.
    mutating func encodingRefused(from: UInt32, _ status: DeviceStatus) {
        guard let upload else { return }
        if status == .wrongBase, let form = upload.begunForm, let image = form.base {
            shared.ledger?.statistics.baseRefused += 1
            report(.note("the device does not run the image of \(image.name)"))
            for note in self.upload?.encoding.refuse(form) ?? [] { report(.note(note)) }
            requestStream()
        } else {
            report(.note("the device refused the encoded image: \(status.meaning)"))
            self.upload?.encoding.giveUp(.notOffered)
        }
        beginImage(from: from)
    }

    /// Begins the transfer of the image again, because the device could not decode the stream. BEGIN requests the end of the last LZMA2
    /// chunk that the device has acknowledged completely, as an offset in the image. The device can continue at a lower offset.
    mutating func notDecoded() {
        upload?.undecoded += 1
        guard let upload else { return }
        if upload.undecoded >= Self.mostUndecoded { self.upload?.encoding.giveUp(.notDecoded) }
        report(.note("the device could not decode the encoded image; the transfer begins again"))
        beginImage(from: acknowledgedOffset)
    }

    /// Selects the plain form for the rest of the image, if the last links were lost after BEGIN of an encoded image without progress.
    /// Returns true if this method has selected the plain form.
    package mutating func fallBack() -> Bool {
        guard let upload, upload.encoding.form != nil, upload.fruitlessLinks >= RetryPolicy.attempts else {
            return false
        }
        self.upload?.encoding.giveUp(.noProgress)
        return true
    }

    // MARK: Dry run

    /// Finds the form in which the push would send the image, and ends the dry run.
    mutating func planEncoding(_ plan: UpdatePlan, _ snapshot: DeviceSnapshot) {
        state = .planning(plan, due: shared.now + Self.encodingLimit)
        prepareEncoding(snapshot)
        upload?.expectedOffset = plan.resumeFrom ?? 0
        continueDryRun(plan)
    }

    mutating func continueDryRun(_ plan: UpdatePlan) {
        requestStream()
        guard plan.bytes > 0, let upload, let form = upload.encoding.form else { return finishDryRun(plan) }
        guard let stream = upload.encoding.stream(from: upload.expectedOffset) else { return }
        var plan = plan
        (plan.encodedBytes, plan.base) = (stream.image.bytes.count, form.base)
        finishDryRun(plan)
    }

    mutating func finishDryRun(_ plan: UpdatePlan) {
        if let snapshot { finish(.wouldUpdate(plan), snapshot.description) }
    }

    /// Reports the form of the transfer that starts at `offset`, unless the last report had the same form. A plain form is reported at most
    /// once, and not for the reasons `asked` and `notOffered`.
    mutating func reportForm(of transfer: ObjectTransfer, from offset: Int) {
        guard let upload, offset < upload.image.count else { return }
        if transfer.positions != nil {
            guard upload.begunForm != upload.reportedForm else { return }
            self.upload?.reportedForm = upload.begunForm
            report(
                .encoding(
                    base: upload.begunForm?.base, bytes: transfer.bytes.count, plainBytes: upload.image.count - offset))
        } else if let reason = upload.encoding.plainBecause {
            shared.ledger?.statistics.plainBecause = reason
            guard !upload.hasReportedPlain, reason != .asked, reason != .notOffered else { return }
            self.upload?.hasReportedPlain = true
            report(.plain(reason))
        }
    }
}
