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
        guard let push else { return }
        takeEncoded()
        for note in self.push?.encoding.choose(for: snapshot, push.options) ?? [] { report(.note(note)) }
        let resumes = push.options.resume != .never || push.beganImage
        let held = snapshot.info.held
        self.push?.expectedOffset =
            resumes && held?.manifestDigestPrefix == push.bundle.manifestDigest.prefix ? held?.offset ?? 0 : 0
        requestStream()
    }

    package mutating func encoded() {
        takeEncoded()
        if let planned { return continueDryRun(planned.plan) }
        if let awaited { continueEncoded(at: awaited.position) } else { requestStream() }
    }

    private mutating func takeEncoded() {
        guard let (request, result) = shared.encoded.take() else { return }
        if let note = push?.encoding.receive(request, result) { report(.note(note)) }
    }

    private mutating func requestStream() {
        guard let offset = push?.expectedOffset, let request = push?.encoding.request(from: offset) else { return }
        encode(request)
    }

    /// Handles the answer *ok* to BEGIN of the encoded image.
    ///
    /// - Parameter from: the offset in the request. The device's offset must not be higher.
    mutating func beganEncoded(from: UInt32, at position: Position) {
        guard let push, isPlausible(position, of: .image, from: from) else { return }
        // A complete image needs no stream.
        guard position.offset < push.image.count else { return start(.image, push.image, at: position) }
        awaited = (position, shared.now + Self.encodingLimit)
        continueEncoded(at: position)
    }

    /// Sends the encoded image from the device's offset. If the stream from this offset is not ready, waits for the encoder. A result of
    /// the encoder can remove the form that the last BEGIN used. In this case, sends BEGIN with the next form.
    private mutating func continueEncoded(at position: Position) {
        push?.expectedOffset = position.offset
        requestStream()
        guard let push, let form = push.encoding.form, form == push.begunForm else {
            return beginImage(from: UInt32(clamping: position.offset))
        }
        guard let stream = push.encoding.stream(from: position.offset) else { return }
        awaited = nil
        self.push?.begunForm = form
        if let base = form.base { shared.transfer?.base = base }
        shared.transfer?.encoding = .lzma2
        start(.image, stream.image.bytes, at: position, stream.positions)
    }

    /// Sends the rest of the image plain, because the encoder was too slow.
    mutating func stopAwaiting(at position: Position) {
        push?.encoding.giveUp(.tooLarge)
        beginImage(from: UInt32(clamping: position.offset))
    }

    /// Sends BEGIN with the next form, because the device refused the encoded image. If the device refused the base, the next form is the
    /// next one in ``EncodingChoice``. After all other refusals, it is the plain image.
    mutating func encodingRefused(from: UInt32, _ status: DeviceStatus) {
        guard let push else { return }
        if status == .wrongBase, let form = push.begunForm, let image = form.base {
            shared.transfer?.baseRefused += 1
            report(.note("the device does not run the image of \(image.name)"))
            for note in self.push?.encoding.refuse(form) ?? [] { report(.note(note)) }
            requestStream()
        } else {
            report(.note("the device refused the encoded image: \(status.meaning)"))
            self.push?.encoding.giveUp(.notOffered)
        }
        beginImage(from: from)
    }

    /// Begins the transfer of the image again, because the device could not decode the stream. BEGIN requests the end of the last LZMA2
    /// chunk that the device has acknowledged completely, as an offset in the image. The device can continue at a lower offset.
    mutating func notDecoded() {
        if let transfer { push?.note(transfer) }
        transfer = nil
        push?.undecoded += 1
        guard let push else { return }
        if push.undecoded >= Self.mostUndecoded { self.push?.encoding.giveUp(.notDecoded) }
        report(.note("the device could not decode the encoded image; the transfer begins again"))
        beginImage(from: UInt32(clamping: push.acknowledgedOffset))
    }

    /// Selects the plain form for the rest of the image, if the last links were lost after BEGIN of an encoded image without progress.
    /// Returns true if this method has selected the plain form.
    package mutating func fallBack() -> Bool {
        guard let push, push.encoding.form != nil, push.fruitlessLinks >= RetryPolicy.attempts else { return false }
        self.push?.encoding.giveUp(.noProgress)
        return true
    }

    // MARK: Dry run

    /// Finds the form in which the push would send the image, and ends the dry run.
    mutating func planEncoding(_ plan: UpdatePlan, _ snapshot: DeviceSnapshot) {
        planned = (plan, shared.now + Self.encodingLimit)
        prepareEncoding(snapshot)
        push?.expectedOffset = plan.resumeFrom ?? 0
        continueDryRun(plan)
    }

    private mutating func continueDryRun(_ plan: UpdatePlan) {
        requestStream()
        guard plan.bytes > 0, let push, let form = push.encoding.form else { return finishDryRun(plan) }
        guard let stream = push.encoding.stream(from: push.expectedOffset) else { return }
        var plan = plan
        (plan.encodedBytes, plan.base) = (stream.image.bytes.count, form.base)
        finishDryRun(plan)
    }

    mutating func finishDryRun(_ plan: UpdatePlan) {
        planned = nil
        if let snapshot { finish(.wouldUpdate(plan), snapshot.description) }
    }

    /// Reports the form of the transfer that starts at `offset`, unless the last report had the same form. A plain form is reported at most
    /// once, and not for the reasons `asked` and `notOffered`.
    mutating func reportForm(from offset: Int) {
        guard let push, let transfer, offset < push.image.count else { return }
        if transfer.positions != nil {
            guard push.begunForm != push.reportedForm else { return }
            self.push?.reportedForm = push.begunForm
            report(
                .encoding(
                    base: push.begunForm?.base, bytes: transfer.bytes.count, plainBytes: push.image.count - offset))
        } else if let reason = push.encoding.plainBecause {
            shared.transfer?.plainBecause = reason
            guard !push.hasReportedPlain, reason != .asked, reason != .notOffered else { return }
            self.push?.hasReportedPlain = true
            report(.plain(reason))
        }
    }
}
