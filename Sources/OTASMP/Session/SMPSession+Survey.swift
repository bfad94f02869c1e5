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
        // The last one, since it may cost the connection: answers come in order, so those to the others are there by then.
        if !link.keepsMessagesApart, let text = device.probe(valueLength: valueLength) {
            questions.append(.echo(text))
        }
        return questions
    }

    /// The next questions, as many as the device takes at once; when all are answered, what lies in the slots, and then what it
    /// comes to.
    mutating func askNext() {
        while exchanges.count < device.questionsAtOnce, !questions.isEmpty { ask(questions.removeFirst()) }
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

    /// Whether a packet in two values came back. Where it did not, pieces of it may still be taken for packets, and answered:
    /// so all begins anew.
    mutating func probed(echoed: Bool) {
        device.reassembles = echoed
        if echoed { return askNext() }
        device.isSurveyed = questions.isEmpty && exchanges.isEmpty
        report(.note("the device does not put packets together: each has to fit one value"))
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
        case .status: tellStatus(list)
        case .confirm: beginConfirm(list)
        case .discard: beginDiscard(list)
        case .identify: break
        }
    }

    private mutating func tellStatus(_ list: SMPImageList) {
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
