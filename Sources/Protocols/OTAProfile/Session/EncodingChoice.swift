import OTAFirmware
import OTAUpdate

/// Chooses the form in which a push sends the image, and holds the encoded image until the push needs it.
///
/// The push tries the forms in this order: as a delta (at most three bases), compressed without a base, and plain. A form that failed is
/// not tried again. Exception: after the first decoding error of the device, the push uses the same form again.
struct EncodingChoice {
    /// An encoded form of the image. If `base` is not nil, the form is the delta from the base. If `base` is nil, the form is the
    /// compressed image.
    struct Form: Equatable {
        var base: BaseImage?

        /// Two forms are equal if both have no base, or if their bases have the same image. The bases can be different files with this
        /// image, because a push reads another file if the first file cannot be read.
        static func == (left: Form, right: Form) -> Bool {
            guard let base = left.base, let other = right.base else { return left.base == nil && right.base == nil }
            return base.hasSameImage(as: other)
        }

        /// The base as a field of the BEGIN request; nil if the image is sent without a base.
        var requestBase: Request.Base? {
            base.map { Request.Base(size: UInt32(clamping: $0.size), digestPrefix: $0.digest.prefix) }
        }
    }
    /// An encoded image that is small enough to send (`worthwhilePercent`), with its positions.
    struct Stream {
        var image: EncodedImage
        var positions: StreamPositions
    }

    /// The maximum size of an encoded image, in per cent of the plain bytes.
    private static let worthwhilePercent = 95
    /// The maximum number of requests to the encoder in a push. A request with an unreadable base is not counted. Without this limit, a
    /// hostile device could cause a new request on each link, because the device can continue at a new offset each time.
    private static let mostRequests = 256

    /// The encoded forms that have not failed, in the order in which the push tries them. If the array is empty, the image is sent plain.
    private var forms: [Form] = []
    /// Bases that replace a base whose files cannot be read (`BaseSelection.reserve`).
    private var reserve: [BaseImage] = []
    /// Other files with the images of the forms' bases and of `reserve`.
    private var copies: [BaseImage] = []
    private var refusedBases = 0
    private var unreadableFiles = 0
    private var isChosen = false
    private let imageSize: Int
    /// The reason why no encoded form is left; nil if a form is left, or before the first call of `choose(for:_:)`.
    private(set) var plainBecause: TransferReport.PlainReason?
    /// The request that the encoder works on; nil if the encoder has no request.
    private var pending: EncodingRequest?
    private var ready: (request: EncodingRequest, stream: Stream)?
    private var requests = 0

    init(imageSize: Int) { self.imageSize = imageSize }

    /// The encoded form that the next BEGIN uses; nil if the next BEGIN uses the plain form.
    var form: Form? { forms.first }

    /// Chooses the encoded forms for a device. Only the first call adds forms. A later call only removes the forms that the device cannot
    /// decode.
    ///
    /// - Returns: messages for the user about bases that are not offered to the device.
    mutating func choose(for device: DeviceSnapshot, _ options: UpdateOptions) -> [String] {
        let isFirst = !isChosen
        defer { isChosen = true }
        if let reason = reasonForPlain(device, options) {
            giveUp(reason)
            return isFirst && reason == .notOffered
                ? BaseSelection.notesWithoutEncodings(options.bases) : []
        }
        guard let largest = device.info.largestBase else { return [] }
        guard isFirst else {
            // Another device, or other firmware, can answer on a later link. So the limits of the device may have changed.
            forms.removeAll { $0.base?.size ?? 0 > largest }
            reserve.removeAll { $0.size > largest }
            return []
        }
        let selection = BaseSelection(from: options.bases, for: device, largest: largest)
        forms = selection.offered.map { Form(base: $0) } + [Form(base: nil)]
        (reserve, copies) = (selection.reserve, selection.copies)
        return selection.notes
    }

    /// Returns the reason why the image must be sent plain; nil if the device, the options and the image allow an encoded form.
    private func reasonForPlain(
        _ device: DeviceSnapshot, _ options: UpdateOptions
    ) -> TransferReport.PlainReason? {
        if options.isPlain { return .asked }
        if device.info.largestBase == nil { return .notOffered }
        return imageSize > EncodedImage.maximumSize ? .tooLarge : nil
    }

    // MARK: Requests to the encoder

    /// Returns the request that the encoder must perform for a stream from `offset`. Nil if the stream is ready, if the encoder still works
    /// on a request, if `offset` is the end of the image, or if no encoded form is left.
    mutating func request(from offset: Int) -> EncodingRequest? {
        guard let form, pending == nil, offset < imageSize else { return nil }
        let request = EncodingRequest(offset: offset, base: form.base)
        guard ready?.request != request else { return nil }
        requests += 1
        guard requests <= Self.mostRequests else {
            giveUp(.noProgress)
            return nil
        }
        pending = request
        ready = nil
        return request
    }

    /// Returns the stream of the current form from `offset`; nil if this stream is not ready.
    func stream(from offset: Int) -> Stream? {
        guard let form, let ready, ready.request == EncodingRequest(offset: offset, base: form.base) else { return nil }
        return ready.stream
    }

    /// Stores the result of the encoder. Removes the current form if the encoder failed or if the encoded image is not small enough
    /// (`worthwhilePercent`). If the file of a base cannot be read, replaces this base. If `result` is nil, there is no encoder, so the
    /// method removes all forms.
    ///
    /// - Returns: a message for the user; nil if the result needs no message.
    mutating func receive(
        _ request: EncodingRequest, _ result: Result<EncodedImage, EncodingFailure>?
    ) -> String? {
        guard pending == request else { return nil }
        pending = nil
        guard let form, form.base == request.base else { return nil }
        switch result {
        case nil: giveUp(.asked)
        case .success(let image)?:
            guard image.offset == request.offset, let positions = StreamPositions(image, imageSize: imageSize) else {
                drop(.notDecoded)
                return "the image cannot be encoded: the encoder returned an invalid result"
            }
            guard image.bytes.count * 100 <= (imageSize - image.offset) * Self.worthwhilePercent else {
                drop(.notSmaller)
                return nil
            }
            ready = (request, Stream(image: image, positions: positions))
        case .failure(.tooLarge)?: drop(.tooLarge)
        case .failure(.notDecoded(let context))?:
            drop(.notDecoded)
            return "the image cannot be encoded: \(context)"
        case .failure(.baseUnreadable(let context))?:
            // Do not count this request. No file is read again after such a failure, so the number of files limits these requests.
            requests -= 1
            replaceUnreadable(form)
            return noteAboutUnreadable(context)
        }
        return nil
    }

    /// Replaces the base of the current form by the same image in another file, or by a base of `reserve`. If both are missing, removes the
    /// form. Call this function if the file of the base cannot be read.
    private mutating func replaceUnreadable(_ form: Form) {
        guard let base = form.base else { return drop(.notDecoded) }
        if let copy = copies.firstIndex(where: base.hasSameImage) {
            forms[0].base = copies.remove(at: copy)
            return
        }
        drop(.notDecoded)
        guard !reserve.isEmpty, !forms.isEmpty else { return }
        // The last form is the compressed image.
        forms.insert(Form(base: reserve.removeFirst()), at: forms.count - 1)
    }

    private mutating func noteAboutUnreadable(_ context: String) -> String? {
        unreadableFiles += 1
        let most = BaseSelection.mostNotes
        if unreadableFiles <= most { return "the base cannot be used: \(context)" }
        return unreadableFiles == most + 1 ? "more than \(most) bases cannot be used" : nil
    }

    // MARK: Failures

    /// Removes the current form after it failed. If no encoded form is left, the image is sent plain.
    ///
    /// - Parameter reason: the reason to report if the image is sent plain.
    mutating func drop(_ reason: TransferReport.PlainReason) {
        guard !forms.isEmpty else { return }
        forms.removeFirst()
        ready = nil
        if forms.isEmpty { plainBecause = reason }
    }

    /// Handles the refusal of a base by the device. After the maximum number of refusals, removes all forms with a base.
    ///
    /// - Returns: messages for the user about bases that are not offered to the device.
    mutating func refuse(_ refused: Form) -> [String] {
        refusedBases += 1
        if form == refused { drop(.notOffered) }
        guard refusedBases >= BaseSelection.mostBases else { return [] }
        forms.removeAll { $0.base != nil }
        defer { reserve = [] }
        return BaseSelection.notesAfterRefusals(reserve)
    }

    /// Removes all encoded forms. The image, or the rest of the image, is then sent plain.
    mutating func giveUp(_ reason: TransferReport.PlainReason) {
        if !isChosen || !forms.isEmpty { plainBecause = reason }
        isChosen = true
        forms = []
        ready = nil
    }
}
