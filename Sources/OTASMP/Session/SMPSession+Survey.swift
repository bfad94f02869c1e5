import OTAUpdate

/// Asking what the device is and can do. A device that does not know a question has not got what it is about.
extension SMPSession {
    /// What every task wants to know, and a push before it looks at the images.
    var firstQuestions: [SMPRequest] {
        switch task {
        case .push: [.parameters, .imageState, .system(format: "i")]
        case .status: [.system(format: "i")]
        case .confirm, .discard, .identify: []
        }
    }

    /// What is to be known before an image is sent. A mark for no image is refused by every device that knows marks at all.
    private var surveyQuestions: [SMPRequest] {
        var questions: [SMPRequest] = [.bootloaderMode, .slots]
        if push?.options.ending != .uploadOnly { questions.append(.setState(digest: nil, confirm: false)) }
        return questions
    }

    /// The next questions, as many as the device takes at once; when all are answered, what lies in the slots, and then what it
    /// comes to.
    mutating func askNext() {
        while exchanges.count < device.questionsInFlight, !questions.isEmpty { ask(questions.removeFirst()) }
        guard exchanges.isEmpty else { return }
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

    /// A device keeps its buffers for a while after an answer.
    private static let quietTime = Duration.milliseconds(100)

    /// Prepares the echoes that find out what the device takes. They go out while nothing else waits for an answer, and after a
    /// pause: a device that is out of buffers drops an echo, too.
    ///
    /// - Returns: whether there is anything to find out.
    mutating func beginProbe() -> Bool {
        guard !link.preservesMessageBoundaries, device.nextProbe(valueLength: valueLength) != nil else { return false }
        stage = .pausing(until: now + Self.quietTime, then: .probe)
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
            if result == .echoed, !exchanges.isEmpty { return }
            if result == .echoed { device.room = packets }
            self.probe = nil
            // The answers that are still to come are not waited for.
            exchanges = []
            askNext()
        }
    }

    /// Where a packet in two values did not come back, the device may still wait for the rest of it, or take its second value
    /// for a packet: the next link begins without that. A lost echo is no answer, and the echo is sent once more.
    private mutating func reassemblyProbed(_ result: SMPProbe.Result) {
        if result == .echoed {
            device.reassembles = true
            return askNext()
        }
        if result == .refused || device.probes >= SMPDevice.mostProbes {
            device.reassembles = false
            report(.note("the device does not put packets together: each has to fit one value"))
        }
        close(.fresh)
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

    /// As far as SMP tells it: the image of the main processor, and no product but for the board's name.
    func describe(_ list: SMPImageList) -> DeviceDescription {
        let running = list.running(0)
        let previous = first?.running(0)
        return DeviceDescription(
            product: device.hardware,
            state: running?.confirmed == false ? .trial : .idle, runningVersion: running?.version ?? "",
            previousVersion: previous?.digest == running?.digest ? nil : previous?.version)
    }
}

extension SMPImageList.Entry {
    /// For people.
    fileprivate var remark: String {
        let state =
            switch (active, pending, confirmed) {
            case (true, _, true): "which runs"
            case (true, _, false): "which runs on trial"
            case (false, true, _): permanent ? "for good from the next start on" : "to be tried at the next start"
            case (false, false, _): bootable ? "not marked to run" : "which cannot be started"
            }
        return "image \(image), slot \(slot): version \(version), \(state)"
    }
}
