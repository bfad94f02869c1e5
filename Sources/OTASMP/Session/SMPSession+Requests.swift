import OTAUpdate

/// Requests and their answers.
extension SMPSession {
    private static let mostViolations = 3

    /// - Parameter busyUntil: set where it is asked again, because the device was busy.
    mutating func ask(_ request: SMPRequest, busyUntil: Duration? = nil) {
        if let error = excess(of: request) { return breakLink(error) }
        stage = .exchanging
        exchanges.append(
            SMPExchange(
                request: request, sequence: send(request), since: now, due: now + timeLimit(of: request, attempt: 1),
                attempt: 1, busyUntil: busyUntil ?? now + SMPExchange.busyLimit))
    }

    /// Sends a request again that was not answered in time.
    private mutating func askAgain(_ exchange: SMPExchange) {
        stage = .exchanging
        let attempt = exchange.attempt + 1
        send(exchange.request, sequence: exchange.sequence)
        exchanges.append(
            SMPExchange(
                request: exchange.request, sequence: exchange.sequence, since: exchange.since,
                due: now + timeLimit(of: exchange.request, attempt: attempt), attempt: attempt,
                busyUntil: exchange.busyUntil))
    }

    /// A device that still restarts is there for a link over UDP or serial, and does not answer: it is asked often.
    private func timeLimit(of request: SMPRequest, attempt: Int) -> Duration {
        if probe == .reassembly { return request.timeLimit(attempt: device.probes) }
        let isLooking = link.preservesMessageBoundaries && lookUntil != nil && request == .imageState
        return isLooking ? .seconds(1) : request.timeLimit(attempt: attempt)
    }

    /// The longest value that is sent, in bytes.
    var valueLength: Int {
        link.preservesMessageBoundaries ? link.maximumValueLength : ChunkLength.planned(link: link.maximumValueLength)
    }

    /// Why this link cannot carry a change; nil: it can.
    ///
    /// The device may need each packet in one value, and the next link may carry longer values. Where the device was not asked, that is
    /// only assumed if an earlier link of this session carried such values. A question is always sent: the device refuses it, and the
    /// session continues without the answer.
    private func excess(of request: SMPRequest) -> LinkError? {
        guard device.reassembles != true, !request.isQuestion else { return nil }
        let length = request.frame(sequence: 0, version: version).bytes.count
        guard length > valueLength, device.reassembles == false || length <= device.longestValue else { return nil }
        return LinkError(
            .lost,
            "the link carries values of \(valueLength) bytes and the request has \(length); the device may not reassemble packets"
        )
    }

    mutating func send(_ request: SMPRequest) -> UInt8 {
        sequence &+= 1
        send(request, sequence: sequence)
        return sequence
    }

    /// A frame longer than a value goes in several, one behind the other: never two frames at a time.
    private mutating func send(_ request: SMPRequest, sequence: UInt8) {
        let bytes = request.frame(sequence: sequence, version: version).bytes
        let length = max(1, valueLength)
        let values = stride(from: 0, to: bytes.count, by: length).map { Array(bytes[$0...].prefix(length)) }
        actions.append(.link(.send(values, SMPChannel.value)))
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
        case .exchanging, .pausing(_, .upload): true
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
        // It had no buffer for one of several echoes, which is what they were to find out.
        case .bad(.busy) where probe?.isOfRoom == true, .bad(.noMemory) where probe?.isOfRoom == true:
            probed(.refused)
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
    private mutating func requeueQuestions() {
        guard !exchanges.isEmpty else { return }
        questions = exchanges.map(\.request) + questions
        exchanges = []
        device.needsSequentialQuestions = true
    }

    private mutating func busy(_ exchange: SMPExchange) {
        requeueQuestions()
        let again = now + SMPExchange.busyInterval
        // The time limit of a restart or a confirmation ends the wait, too.
        if let lookUntil, lookUntil < min(again, exchange.busyUntil) {
            return fail(
                UpdateError(
                    .deviceBusy, "the device still answers \(exchange.request.name) with busy at the time limit"))
        }
        guard again <= exchange.busyUntil else {
            return fail(UpdateError(.deviceBusy, "the device answered \(exchange.request.name) with busy for 90 s"))
        }
        stage = .pausing(until: again, then: .ask(exchange.request, busyUntil: exchange.busyUntil))
    }

    mutating func unanswered(_ exchange: SMPExchange) {
        if probe != nil { return probed(.silence) }
        requeueQuestions()
        switch exchange.request {
        case .reset: restarted()
        case let request where exchange.attempt < request.attempts: askAgain(exchange)
        case let request:
            let seconds = (now - exchange.since).components.seconds
            breakLink(LinkError(.timedOut, "no answer to \(request.name) within \(seconds) s"))
        }
    }

    private mutating func done(_ request: SMPRequest, _ fields: [String: CBORValue]) throws(SMPFrameError) {
        switch request {
        case .echo(let text): return probed(fields["r"] == .text(text) ? .echoed : .refused)
        case .parameters: device.parameters = try SMPParameters(fields)
        case .bootloader: break
        case .bootloaderMode: device.mode = fields["mode"]?.integer.flatMap(SMPBootloaderMode.init)
        case .system:
            device.hardware = fields["output"]?.shortText
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
        case .echo: return probed(.refused)
        case .system: device.wasAskedForBoard = true
        case .parameters, .bootloader, .bootloaderMode, .slots: break
        case .setState(nil, confirm: false): device.marksImages = error != .unsupported
        case .erase where push?.toErase != nil || isEmptySlot(error): return erased()
        default: return fail(error.update(request))
        }
        askNext()
    }
}
