import OTAFirmware
import OTASigning
import OTAUpdate

/// The state of a push's upload that remains from one link to the next.
struct ProfileUpload {
    let bundle: VerifiedBundle
    let options: UpdateOptions
    /// The envelope that the current device receives (`VerifiedBundle.envelope(for:)`).
    var envelope: [UInt8] = []

    /// True after the device accepted BEGIN of the image in this session. From then on, each new link resumes the transfer, even with
    /// `UpdateOptions.Resume.never`.
    var beganImage = false
    /// The window at the end of the last transfer of the image; nil before. The next transfer starts with it: a device whose queue is
    /// short, or a slow link, is the same after a reconnection.
    var window: WindowSize?
    /// The parts that this session has sent.
    var parts = SentParts()
    /// True after the device reported a flash error during the current transfer.
    var hasFlashFailed = false
    /// The number of position mismatches and flash errors in this session. A mismatch that makes the push change to the plain image is not
    /// counted.
    ///
    /// A position mismatch is a position from the device that contradicts the sent bytes.
    var mismatches = 0
    /// How many times the device computed a wrong digest of the image.
    var digestMismatches = 0

    /// The forms in which the image can be sent, and the current form.
    var encoding: EncodingChoice
    /// The last result of the encoder; nil if no result has arrived, or if the push has already used the result. `result` is nil if the
    /// runner has no encoder.
    var encoded: (request: EncodingRequest, result: Result<EncodedImage, EncodingFailure>?)?
    /// The form of the last BEGIN of the image. Nil if this form was plain, or if no BEGIN of the image was sent.
    var begunForm: EncodingChoice.Form?
    /// The form in the last report `encoding`; nil if no such report was sent.
    var reportedForm: EncodingChoice.Form?
    var hasReportedPlain = false
    /// The image offset from which the next encoded stream probably starts.
    var expectedOffset = 0
    /// True if the current or last transfer of the image is encoded.
    var isEncoded = false
    /// How many times the device could not decode the encoded image.
    var undecoded = 0
    /// How many open links in a row were lost after BEGIN of an encoded image, without progress on any of them.
    var fruitlessLinks = 0

    init(_ bundle: VerifiedBundle, _ options: UpdateOptions) {
        self.bundle = bundle
        self.options = options
        encoding = EncodingChoice(imageSize: bundle.image.count)
    }

    var image: [UInt8] { bundle.image }
    /// True if the transfer of the image starts at the device's offset; false if it starts at 0.
    var resumes: Bool { options.resume != .never || beganImage }

    func bytes(of object: TransferObject) -> [UInt8] { object == .envelope ? envelope : bundle.image }
}
