import OTAUpdate

/// The queries about the device's features. A query is a request that changes nothing on the device.
///
/// If the device refuses a query, the conversation assumes that the device does not have the feature. Exception: if the device refuses the
/// request for its image list, the session fails.
extension SMPConversation {
    /// The queries to send on the first link.
    var firstQuestions: [SMPRequest] {
        switch task {
        // The mode follows the list: a device that answers the list and is silent to the mode keeps its link.
        // Only the answer to the list shows that a device has restarted.
        case .push where loader.isUnderWay: [.imageState, .parameters, .bootloaderMode, .system(format: "i")]
        case .push: [.parameters, .imageState, .bootloaderMode, .system(format: "i")]
        case .status: [.parameters, .system(format: "i")]
        case .confirm, .discard, .restart, .identify: []
        }
    }

    /// The queries to send before an upload.
    ///
    /// The mark request without a digest tests whether the device can mark images. A device with this command refuses the request, because
    /// it names no image. Only the error `SMPError.unsupported` shows that the device cannot mark images.
    private var surveyQuestions: [SMPRequest] {
        var questions: [SMPRequest] = [.slots]
        if !device.hasFirmwareLoader, push?.options.ending != .uploadOnly {
            questions.append(.setState(digest: nil, confirm: false))
        }
        return questions
    }

    /// Sends the next queries. The number of queries in flight is at most `SMPDevice.questionsInFlight`.
    ///
    /// When all queries have been answered, requests the image list if the link has none. Otherwise, starts the next step of the
    /// `UpdateTask`.
    mutating func askNext() {
        while asked.count < device.questionsInFlight, !link.questions.isEmpty { ask(link.questions.removeFirst()) }
        guard asked.isEmpty else { return }
        if link.isSurveying { device.isSurveyed = true }
        link.isSurveying = false
        guard link.hasImageState else { return ask(.imageState) }
        guard device.wasAskedForMode else { return ask(.bootloaderMode) }
        device.wasGreeted = true
        if device.hasFirmwareLoader { return beginWithLoader() }
        // A device with a list or another mode is another device.
        if loader.isUnderWay, link.list == nil, device.mode == nil {
            return meetsOtherProgram("does not report its bootloader's mode")
        }
        if loader.isUnderWay || shared.link.hasOtherAddress { return leaveOtherDevice() }
        if let refusal = link.listRefusal { return fail(refusal.update(.imageState)) }
        if let list = link.list { begin(list) }
    }

    /// Starts the queries that precede an upload.
    mutating func survey() {
        link.questions = surveyQuestions
        link.isSurveying = true
        askNext()
    }

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
        switch probe {
        case .reassembly:
            device.probes += 1
            ask(.echo(text), probe: probe)
        case .room(let packets):
            device.triedRoom = packets
            device.echoes = 0
            for _ in 0..<packets { ask(.echo(text), probe: probe) }
        }
    }

    /// Handles the result of one echo request of a test.
    ///
    /// The test of several packets ends only after the last of its requests was answered or has timed out. Until then, the device's buffers
    /// hold the requests, and the device would drop another packet without an answer.
    mutating func probed(_ exchange: SMPExchange, _ result: SMPProbe.Result) {
        switch exchange.probe {
        case nil: break
        case .reassembly: reassemblyProbed(result)
        case .room(let packets):
            if result == .echoed { device.echoes += 1 }
            guard asked.isEmpty else { return }
            if device.echoes == packets { device.room = packets }
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

    mutating func buffersReported(_ fields: [String: CBORValue]) {
        let parameters = SMPParameters(fields)
        device.parameters = parameters
        guard let unusable = parameters.unusableValues(in: fields) else { return }
        report(.note("the device reports no usable value for its buffers: \(unusable)"))
    }

    /// Handles a new image list from the device.
    mutating func listed(_ list: SMPImageList) {
        guard isDevice(list) else { return }
        (link.list, link.listRefusal) = (list, nil)
        isDeviceReached = true
        askNext()
    }

    /// Handles the refusal of the image list. The application of a device with one slot does not support the list.
    mutating func listRefused(_ error: SMPError) {
        guard error == .unsupported, !shared.isCandidate else { return fail(error.update(.imageState)) }
        (link.list, link.listRefusal) = (nil, error)
        askNext()
    }

    private mutating func begin(_ list: SMPImageList) {
        if first == nil { first = list }
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
        description.serial = device.info?.serial
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
