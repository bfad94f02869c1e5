import OTAUpdate

/// Requests and their answers.
extension SMPSession {
    private static let mostViolations = 3

    /// - Parameters:
    ///   - attempt: how often it was sent, this time included.
    ///   - busyUntil: set where it is asked again, because the device was busy.
    mutating func ask(_ request: SMPRequest, attempt: Int = 1, busyUntil: Duration? = nil) {
        stage = .talking
        if case .echo = request { device.probes += 1 }
        let sequence = send(request)
        exchanges.append(
            SMPExchange(
                request: request, sequence: sequence, due: now + timeLimit(of: request), attempt: attempt,
                busyUntil: busyUntil ?? now + SMPExchange.busyLimit))
    }

    /// A device that still restarts is there for a link over UDP or serial, and does not answer: it is asked often.
    private func timeLimit(of request: SMPRequest) -> Duration {
        let isLooking = link.keepsMessagesApart && lookUntil != nil && request == .imageState
        return isLooking ? .seconds(1) : request.timeLimit
    }

    /// The longest value that is sent, in bytes.
    var valueLength: Int {
        link.keepsMessagesApart ? link.maximumValueLength : ChunkLength.planned(link: link.maximumValueLength)
    }

    /// A frame longer than a value goes in several, one behind the other: never two frames at a time.
    mutating func send(_ request: SMPRequest) -> UInt8 {
        sequence &+= 1
        let bytes = request.frame(sequence: sequence, version: version).bytes
        let length = max(1, valueLength)
        let values = stride(from: 0, to: bytes.count, by: length).map { Array(bytes[$0...].prefix(length)) }
        actions.append(.link(.send(values, SMPChannel.value)))
        return sequence
    }

    mutating func notified(_ bytes: [UInt8]) {
        do throws(SMPFrameError) {
            for frame in try assembler.take(bytes) {
                guard listensToFrames else { return }
                try take(frame)
            }
        } catch {
            // It may be the rest of a packet whose beginning got lost; but not each time.
            violations += 1
            guard violations < Self.mostViolations else { return fail(error) }
            breakLink(LinkError(.lost, error.context))
        }
    }

    private var listensToFrames: Bool {
        switch stage {
        case .talking, .pausing(_, .upload): true
        default: false
        }
    }

    /// A frame that nobody waits for is a late answer.
    private mutating func take(_ frame: SMPFrame) throws(SMPFrameError) {
        if let upload, upload.awaits(frame.sequence), frame.group == SMPRequest.imageGroup, frame.command == 1 {
            let answer = try SMPAnswer(parsing: frame.body)
            if fallsBack(answer, frame) { return reopenUpload() }
            return chunkAnswered(frame.sequence, answer)
        }
        guard let index = exchanges.firstIndex(where: { $0.request.isAnswered(by: frame, sequence: $0.sequence) })
        else { return }
        let answer = try SMPAnswer(parsing: frame.body)
        let exchange = exchanges.remove(at: index)
        if fallsBack(answer, frame) { return ask(exchange.request, busyUntil: exchange.busyUntil) }
        switch answer {
        case .good(let fields): try done(exchange.request, fields)
        case .bad(.busy), .bad(.noMemory): busy(exchange)
        case .bad(let error): declined(exchange.request, error)
        }
    }

    /// A device that knows version 1 of SMP alone answers in it, or says that the packet was too new: true where it wants to
    /// be asked once more.
    private mutating func fallsBack(_ answer: SMPAnswer, _ frame: SMPFrame) -> Bool {
        guard version == .second else { return false }
        if answer == .bad(.versionTooNew) {
            version = .first
            return true
        }
        version = frame.version
        return false
    }

    /// A device that has trouble with several questions at once is asked one by one from now on.
    private mutating func takeBackQuestions() {
        guard !exchanges.isEmpty else { return }
        questions = exchanges.map(\.request) + questions
        exchanges = []
        device.isAskedOneByOne = true
    }

    private mutating func busy(_ exchange: SMPExchange) {
        takeBackQuestions()
        let again = now + SMPExchange.busyInterval
        guard again <= exchange.busyUntil else {
            return fail(UpdateError(.deviceBusy, "the device answered \(exchange.request.name) with busy for 90 s"))
        }
        stage = .pausing(until: again, then: .ask(exchange.request, busyUntil: exchange.busyUntil))
    }

    mutating func unanswered(_ exchange: SMPExchange) {
        takeBackQuestions()
        switch exchange.request {
        case .reset: restarted()
        case .echo: probed(echoed: false)
        case let request where request.isRepeatable && exchange.attempt < SMPExchange.attempts:
            ask(request, attempt: exchange.attempt + 1, busyUntil: exchange.busyUntil)
        case let request:
            let seconds = timeLimit(of: request).components.seconds
            breakLink(LinkError(.timedOut, "no answer to \(request.name) within \(seconds) s"))
        }
    }

    private mutating func done(_ request: SMPRequest, _ fields: [String: CBORValue]) throws(SMPFrameError) {
        switch request {
        case .echo(let text): return probed(echoed: fields["r"] == .text(text))
        case .parameters: device.parameters = try SMPParameters(fields)
        case .bootloader: break
        case .bootloaderMode: device.mode = fields["mode"]?.integer.flatMap(SMPBootloaderMode.init)
        case .system:
            device.hardware = fields["output"]?.text
            device.wasAskedForBoard = true
        case .slots: device.slots = try SMPSlotList(fields)
        case .imageState: return try listed(SMPImageList(fields))
        case .setState(nil, confirm: false): device.marksImages = true
        case .setState(_, let confirm): return try marked(confirm: confirm, fields)
        case .reset: return restarted()
        case .erase: return erased()
        case .upload: return
        }
        askNext()
    }

    private mutating func declined(_ request: SMPRequest, _ error: SMPError) {
        switch request {
        case .echo: return probed(echoed: false)
        case .system: device.wasAskedForBoard = true
        case .parameters, .bootloader, .bootloaderMode, .slots: break
        case .setState(nil, confirm: false): device.marksImages = error != .unsupported
        case .erase where isEmptySlot(error): return erased()
        default: return fail(error.update(request))
        }
        askNext()
    }
}
