import OTAUpdate

/// Queries about the device: requests that change nothing. If the device does not support a query, it does not have the feature.
extension SMPConversation {
    /// The queries that are sent on the first link.
    var firstQuestions: [SMPRequest] {
        switch task {
        case .push: [.parameters, .imageState, .system(format: "i")]
        case .status: [.system(format: "i")]
        case .confirm, .discard, .identify: []
        }
    }

    /// The queries before an upload. One of them is a mark request without a digest: a device that can mark images refuses it, and
    /// another device reports an unsupported command.
    private var surveyQuestions: [SMPRequest] {
        var questions: [SMPRequest] = [.bootloaderMode, .slots]
        if push?.options.ending != .uploadOnly { questions.append(.setState(digest: nil, confirm: false)) }
        return questions
    }

    /// Sends the next queries, as many as the device has buffers for. After the last answer, requests the image list if that is
    /// missing, and then continues the task.
    mutating func askNext() {
        while asked < device.questionsInFlight, !questions.isEmpty { ask(questions.removeFirst()) }
        guard asked == 0 else { return }
        if isSurveying { device.isSurveyed = true }
        isSurveying = false
        guard let list else { return ask(.imageState) }
        begin(list)
    }

    mutating func survey() {
        questions = surveyQuestions
        isSurveying = true
        askNext()
    }

    /// The pause before an echo. A device does not free its buffers immediately after an answer.
    private static let quietTime = Duration.milliseconds(100)

    /// Prepares the echo requests that test how many packets, and how long ones, the device accepts.
    ///
    /// The echo requests are sent after a pause and while no other request is open, because a device without a free buffer would drop
    /// them.
    ///
    /// - Returns: false if no echo request is necessary.
    mutating func beginProbe() -> Bool {
        guard !shared.link.preservesMessageBoundaries, device.nextProbe(valueLength: valueLength) != nil else {
            return false
        }
        pause(Self.quietTime, then: .probe)
        return true
    }

    mutating func sendProbe() {
        guard let (probe, text) = device.nextProbe(valueLength: valueLength) else { return askNext() }
        self.probe = probe
        switch probe {
        case .reassembly:
            device.probes += 1
            ask(.echo(text))
        case .room(let packets):
            device.triedRoom = packets
            for _ in 0..<packets { ask(.echo(text)) }
        }
    }

    mutating func probed(_ result: SMPProbe.Result) {
        guard let probe else { return }
        switch probe {
        case .reassembly:
            self.probe = nil
            reassemblyProbed(result)
        case .room(let packets):
            if result == .echoed, asked > 0 { return }
            if result == .echoed { device.room = packets }
            self.probe = nil
            discardExchanges()
            askNext()
        }
    }

    /// Handles the result of an echo request that was sent as two values.
    ///
    /// If no echo arrives, the device may still be waiting for the rest of the packet, or it has parsed the second value as a packet. A
    /// new link ends both states. An echo can also be lost, so the request is sent once more.
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

    mutating func listed(_ list: SMPImageList) {
        self.list = list
        if first == nil { first = list }
        askNext()
    }

    private mutating func begin(_ list: SMPImageList) {
        switch task {
        case .push: proceed(with: list)
        case .status: reportStatus(list)
        case .confirm: beginConfirm(list)
        case .discard: beginDiscard(list)
        case .identify: break
        }
    }

    private mutating func reportStatus(_ list: SMPImageList) {
        for entry in list.entries where !entry.active || entry.image > 0 { report(.note(entry.remark)) }
        finish(.done, describe(list))
    }

    /// Returns the status that SMP reports: the image of the main processor, and the board's name as the product.
    func describe(_ list: SMPImageList) -> DeviceDescription {
        let running = list.running(0)
        let previous = first?.running(0)
        return DeviceDescription(
            product: device.hardware,
            state: running?.confirmed == false ? .trial : .idle, runningVersion: running?.version ?? "",
            previousVersion: previous?.digest == running?.digest ? nil : previous?.version,
            slots: list.entries.map { DeviceDescription.ImageSlot($0) })
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

    /// True if the request is a query: it changes nothing on the device, so the device can answer at once.
    var isQuestion: Bool {
        switch self {
        case .echo, .parameters, .bootloader, .bootloaderMode, .system, .slots, .imageState: true
        // A mark request without a digest changes nothing, because every device refuses it.
        case .setState(digest: nil, confirm: false): true
        case .setState, .reset, .erase, .upload: false
        }
    }

    /// Returns how long the conversation waits for the answer to an attempt of a request.
    ///
    /// A question is repeated after 1 s, 2 s and 4 s, and has 15 s in total: a device drops a packet silently if it has no buffer. Marks
    /// and erases change the flash.
    ///
    /// - Parameter attempt: the number of the attempt; the first is 1.
    func timeLimit(attempt: Int) -> Duration {
        if isQuestion { return .seconds(1) * (1 << (min(attempt, Self.questionAttempts) - 1)) }
        return switch self {
        case .reset: .seconds(5)
        case .erase, .upload: .seconds(60)
        default: .seconds(15)
        }
    }

    /// The maximum number of attempts for a request without an answer. A restart has one attempt, because the device's status shows
    /// whether it happened.
    var attempts: Int {
        self == .reset ? 1 : isQuestion ? Self.questionAttempts : Self.changeAttempts
    }
}

extension SMPImageList.Entry {
    /// The note for the user that the device does not support this request.
    fileprivate var remark: String {
        let state =
            switch (active, pending, confirmed) {
            case (true, _, true): "running"
            case (true, _, false): "running on trial"
            case (false, true, _):
                permanent ? "marked as permanent for the next boot" : "marked for a trial at the next boot"
            case (false, false, _): bootable ? "not marked for boot" : "not bootable"
            }
        return "image \(image), slot \(slot): version \(version), \(state)"
    }
}
