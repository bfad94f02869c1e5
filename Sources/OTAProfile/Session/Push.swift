import OTAFirmware
import OTASigning
import OTAUpdate

/// What a push knows across its connections.
struct Push {
    let bundle: VerifiedBundle
    let options: PushOptions

    /// The first connection alone may find what an earlier run left.
    var beganImage = false
    /// Image bytes sent and acknowledged when last heard of.
    var sentOffset = 0
    var acknowledgedOffset = 0
    /// The furthest the device has come in this run: only what lies beyond is progress.
    var furthestOffset = 0
    var firstByteAt: Duration?
    var transfer = TransferReport()
    var budget: ProgressBudget

    var mismatches = 0
    var digestMismatches = 0
    var appliedAgain = 0

    var apply = ApplyState.none
    /// What ran before, where this run saw it.
    var previous: DeviceSnapshot?

    /// How far APPLY got, whose effect outlives the connection.
    enum ApplyState: Equatable {
        case none
        /// Sent, and no answer yet: the device may have acted on it.
        case asked
        /// The link was lost before an answer came.
        case unanswered(since: Duration)
        case answered(at: Duration)
    }

    var image: [UInt8] { bundle.image }
    var envelope: [UInt8] { bundle.envelope.bytes }
    var preflight: Preflight { Preflight(bundle: bundle, options: options) }
    var version: String { bundle.manifest.version.text }

    init(_ bundle: VerifiedBundle, _ options: PushOptions) {
        self.bundle = bundle
        self.options = options
        budget = ProgressBudget(imageBytes: bundle.image.count)
        transfer.imageBytes = bundle.image.count
    }
}
