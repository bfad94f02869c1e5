/// A request that is sent until its answer arrives.
struct SMPExchange {
    let request: SMPRequest
    /// The test to which an echo request belongs; nil for all other requests.
    let probe: SMPProbe?
    /// The time until which the device may answer *busy*. After this time, the answer *busy* fails the session.
    let busyEnd: Duration
    /// The sequence number. All attempts have the same number, so that a late answer to an earlier attempt is also accepted.
    var sequence: UInt8 = 0
    /// The time at which the first attempt was sent.
    var since = Duration.zero
    /// The number of this attempt; the first attempt has the number 1.
    var attempt = 0
    /// The time at which the conversation stops waiting for the answer to this attempt.
    var due = Duration.zero

    init(_ request: SMPRequest, probe: SMPProbe? = nil, busyEnd: Duration) {
        self.request = request
        self.probe = probe
        self.busyEnd = busyEnd
    }

    func isAnswered(by frame: SMPFrame) -> Bool { request.isAnswered(by: frame, sequence: sequence) }
}

extension SMPRequest {
    private static let questionAttempts = 4
    private static let changeAttempts = 3

    /// True if the request is a query, which changes nothing on the device.
    var isQuestion: Bool {
        switch self {
        case .echo, .parameters, .bootloader, .bootloaderMode, .system, .slots, .imageState, .deviceInfo: true
        // A mark request without a digest changes nothing, because it names no image.
        case .setState(digest: nil, confirm: false): true
        case .setState, .reset, .resetToLoader, .erase, .upload, .writeSetting, .saveSettings: false
        }
    }

    /// True if the request is a query that the session does not need. If the answer cannot be used, the feature counts as not reported.
    var isOptional: Bool { isQuestion && self != .imageState }

    /// Returns the time limit for the answer to an attempt of a request.
    ///
    /// The limits of the four attempts of a query are 1 s, 2 s, 4 s and 8 s. The first limits are short, because a device without a free
    /// buffer drops a query, and the host must soon send the query again. Marks and erases have longer limits, because the device writes or
    /// erases its flash before it answers.
    ///
    /// - Parameter attempt: the number of the attempt; the first attempt has the number 1.
    func timeLimit(attempt: Int) -> Duration {
        if isQuestion { return .seconds(1) * (1 << (min(attempt, Self.questionAttempts) - 1)) }
        return switch self {
        case .reset, .resetToLoader: .seconds(5)
        case .erase, .upload: .seconds(60)
        default: .seconds(15)
        }
    }

    /// The maximum number of attempts if no answer arrives.
    ///
    /// A restart request has only one attempt. If no answer arrives, the next image list shows whether the device has restarted.
    var attempts: Int {
        self == .reset || self == .resetToLoader ? 1 : isQuestion ? Self.questionAttempts : Self.changeAttempts
    }
}
