import OTAUpdate

/// The queries about the device's features. A query is a request that changes nothing on the device.
///
/// If the device refuses a query, the conversation assumes that the device does not have the feature. Exception: if the device refuses the
/// request for its image list, the session fails.
extension SMPConversation {
    /// The queries to send on the first link.
    var firstQuestions: [SMPRequest] {
        switch task {
        case .push: [.parameters, .imageState, .system(format: "i")]
        case .status: [.parameters, .system(format: "i")]
        case .confirm, .discard, .restart, .identify: []
        }
    }

    /// The queries to send before an upload.
    ///
    /// The mark request without a digest tests whether the device can mark images. A device with this command refuses the request, because
    /// it names no image. Only the error `SMPError.unsupported` shows that the device cannot mark images.
    private var surveyQuestions: [SMPRequest] {
        var questions: [SMPRequest] = [.bootloaderMode, .slots]
        if push?.options.ending != .uploadOnly { questions.append(.setState(digest: nil, confirm: false)) }
        return questions
    }

    /// Sends the next queries. The number of queries in flight is at most `SMPDevice.questionsInFlight`.
    ///
    /// When all queries have been answered, requests the image list if `list` is nil. If `list` is not nil, starts the next step of the
    /// `UpdateTask`.
    mutating func askNext() {
        while asked < device.questionsInFlight, !questions.isEmpty { ask(questions.removeFirst()) }
        guard asked == 0 else { return }
        if isSurveying { device.isSurveyed = true }
        isSurveying = false
        guard let list else { return ask(.imageState) }
        begin(list)
    }

    /// Starts the queries that precede an upload.
    mutating func survey() {
        questions = surveyQuestions
        isSurveying = true
        askNext()
    }

    /// After this time, a device that still answers an optional query with *busy* counts as a device without the feature.
    static let longestOptionalBusy = Duration.seconds(10)
    /// The pause before the echo requests of a test. It is necessary because a device does not free its buffers immediately after an
    /// answer.
    private static let quietTime = Duration.milliseconds(100)

    /// Starts the next test with echo requests (``SMPProbe``), if a test is left.
    ///
    /// The conversation calls this method only when no request waits for its answer. The conversation then pauses for `quietTime`, and
    /// sends the echo requests after the pause. Without the pause, the device could have no free buffer, and would drop an echo request.
    ///
    /// - Returns: true if a test starts; false if no test is left. Over UDP and serial, there are no tests, so the result is always false.
    mutating func beginProbe() -> Bool {
        guard !shared.link.preservesMessageBoundaries, device.nextProbe(valueLength: valueLength) != nil else {
            return false
        }
        pause(Self.quietTime, then: .probe)
        return true
    }

    /// Sends the echo requests of the next test.
    mutating func sendProbe() {
        guard let (probe, text) = device.nextProbe(valueLength: valueLength) else { return askNext() }
        self.probe = probe
        switch probe {
        case .reassembly:
            device.probes += 1
            ask(.echo(text))
        case .room(let packets):
            device.triedRoom = packets
            isProbeMissingEcho = false
            for _ in 0..<packets { ask(.echo(text)) }
        }
    }

    /// Handles the result of one echo request of the current test.
    ///
    /// The test of several packets ends only after the last of its requests was answered or has timed out. Until then, the device's buffers
    /// hold the requests, and the device would drop another packet without an answer.
    mutating func probed(_ result: SMPProbe.Result) {
        guard let probe else { return }
        switch probe {
        case .reassembly:
            self.probe = nil
            reassemblyProbed(result)
        case .room(let packets):
            if result != .echoed { isProbeMissingEcho = true }
            guard asked == 0 else { return }
            if !isProbeMissingEcho { device.room = packets }
            self.probe = nil
            // Sends the echo requests of the next test, if a test is left.
            pause(Self.quietTime, then: .probe)
        }
    }

    /// Handles the result of the reassembly test, whose echo request was sent as two values.
    ///
    /// If the device did not send the text back, the device may keep an incomplete packet. The device discards this packet when the link
    /// ends. So the session opens a new link. If no answer arrived in time, the answer may have been lost. So the conversation repeats the
    /// test once.
    private mutating func reassemblyProbed(_ result: SMPProbe.Result) {
        if result == .echoed {
            device.reassembles = true
            return askNext()
        }
        if result == .refused || device.probes >= SMPDevice.mostProbes {
            device.reassembles = false
            report(.note("the device does not reassemble packets: each packet must fit into one value"))
        }
        reconnect(.clean)
    }

    /// Returns the answer to a request; nil if the answer is malformed and the session does not need it.
    func answer(to request: SMPRequest, in frame: SMPFrame) throws(SMPFrameError) -> SMPAnswer? {
        do throws(SMPFrameError) {
            return try SMPAnswer(parsing: frame.body)
        } catch {
            guard request.isOptional else { throw error }
            return nil
        }
    }

    /// Handles the device's refusal of a request.
    mutating func declined(_ request: SMPRequest, _ error: SMPError) {
        switch request {
        case .setState(nil, confirm: false):
            device.marksImages = error != .unsupported
            askNext()
        case .erase where push?.toErase != nil || isEmptySlot(error): erased(wasEmpty: true)
        case let request where request.isOptional: notReported(request)
        default: fail(error.update(request))
        }
    }

    /// Continues without the feature that an optional query is about.
    mutating func notReported(_ request: SMPRequest) {
        switch request {
        case .echo: return probed(.refused)
        case .system: device.wasAskedForBoard = true
        default: break
        }
        askNext()
    }

    mutating func buffersReported(_ fields: [String: CBORValue]) {
        let parameters = SMPParameters(fields)
        device.parameters = parameters
        guard let unusable = parameters.unusableValues(in: fields) else { return }
        report(.note("the device reports no usable value for its buffers: \(unusable)"))
    }

    /// The maximum length in bytes of a value that the conversation sends on this link.
    var valueLength: Int {
        let longest = shared.link.maximumValueLength
        return shared.link.preservesMessageBoundaries ? longest : ChunkLength.planned(link: longest)
    }

    /// Returns the time limit for the answer to an attempt of a request.
    ///
    /// Over UDP and serial, a link opens even while the device restarts. So only an answer shows that the device has restarted. After a
    /// restart request, the conversation therefore requests the image list every second until the device answers.
    func timeLimit(of request: SMPRequest, attempt: Int) -> Duration {
        if probe == .reassembly { return request.timeLimit(attempt: device.probes) }
        let isLooking =
            shared.link.preservesMessageBoundaries && shared.restartDeadline != nil && request == .imageState
        return isLooking ? .seconds(1) : request.timeLimit(attempt: attempt)
    }

    /// Handles a new image list from the device.
    mutating func listed(_ list: SMPImageList) {
        guard isDevice(list) else { return }
        self.list = list
        if first == nil { first = list }
        askNext()
    }

    private mutating func begin(_ list: SMPImageList) {
        switch task {
        case .push: proceed(with: list)
        case .status: finish(.done, describe(list))
        case .confirm: beginConfirm(list)
        case .discard(let erasesImage): beginDiscard(list, erasesImage: erasesImage)
        case .restart: beginRestart(list)
        case .identify: break
        }
    }

    /// Returns the device's status for the user.
    ///
    /// The state and the version are from image 0, which is the image of the main processor. The product is the board's name, because SMP
    /// does not report a product.
    func describe(_ list: SMPImageList) -> DeviceDescription {
        let running = list.running(0)
        let previous = first?.running(0)
        let state: DeviceDescription.State =
            switch running?.confirmed {
            case true: .idle
            case false: .trial
            case nil: .unknown
            }
        var description = DeviceDescription(
            product: device.hardware, state: state, runningVersion: running?.version ?? "",
            previousVersion: previous?.digest == running?.digest ? nil : previous?.version,
            slots: list.entries.map { DeviceDescription.ImageSlot($0) })
        description.packetLength = device.knownPacketLength(valueLength: valueLength, on: shared.link)
        return description
    }
}

extension DeviceDescription.ImageSlot {
    init(_ entry: SMPImageList.Entry) {
        self.init()
        image = entry.image
        slot = entry.slot
        version = entry.version
        digest = entry.digest
        isActive = entry.active
        isPending = entry.pending
        isConfirmed = entry.confirmed
        isPermanent = entry.permanent
        isBootable = entry.bootable
    }
}

extension SMPRequest {
    private static let questionAttempts = 4
    private static let changeAttempts = 3

    /// True if the request is a query, which changes nothing on the device.
    var isQuestion: Bool {
        switch self {
        case .echo, .parameters, .bootloader, .bootloaderMode, .system, .slots, .imageState: true
        // A mark request without a digest changes nothing, because it names no image.
        case .setState(digest: nil, confirm: false): true
        case .setState, .reset, .erase, .upload: false
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
        case .reset: .seconds(5)
        case .erase, .upload: .seconds(60)
        default: .seconds(15)
        }
    }

    /// The maximum number of attempts if no answer arrives.
    ///
    /// A restart request has only one attempt. If no answer arrives, the next image list shows whether the device has restarted.
    var attempts: Int {
        self == .reset ? 1 : isQuestion ? Self.questionAttempts : Self.changeAttempts
    }
}
