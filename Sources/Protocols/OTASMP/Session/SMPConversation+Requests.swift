import OTAUpdate

/// The requests: sends them, repeats them, and evaluates their answers.
extension SMPConversation {
    /// After this time, a device that still answers an optional query with *busy* counts as a device without the feature.
    private static let longestOptionalBusy = Duration.seconds(10)
    /// The attempts of an optional query after the device has answered the request for its image list: they take 3 s.
    private static let attemptsAfterList = 2

    /// The requests that wait for their answers.
    var asked: [SMPExchange] { if case .asking(let exchanges) = state { exchanges } else { [] } }

    // MARK: Sending

    mutating func ask(_ request: SMPRequest, probe: SMPProbe? = nil) {
        let limit = shared.now + Self.longestOptionalBusy
        let busyEnd = request.isOptional ? min(limit, shared.busyEnd) : shared.busyEnd
        ask(SMPExchange(request, probe: probe, busyEnd: busyEnd))
    }

    /// Sends the first attempt of a request, with the next sequence number.
    mutating func ask(_ exchange: SMPExchange) {
        if let error = excess(of: exchange.request) { return breakLink(error) }
        var exchange = exchange
        (exchange.sequence, exchange.since, exchange.attempt) = (shared.nextNumber(), shared.now, 0)
        send(exchange)
    }

    /// Sends the next attempt of a request.
    ///
    /// A device that demands a bond drops a write without response, and reports no error. So if the device has sent nothing on this link,
    /// the last attempt is a write with response. The transport then pairs, or reports that the device demands pairing.
    private mutating func send(_ exchange: SMPExchange) {
        var exchange = exchange
        exchange.attempt += 1
        exchange.due = shared.now + timeLimit(of: exchange)
        let demandsResponse =
            !link.hasNotified && exchange.attempt == exchange.request.attempts
            && !shared.link.preservesMessageBoundaries
        send(exchange.request, sequence: exchange.sequence, demandsResponse: demandsResponse)
        state = .asking(asked + [exchange])
    }

    /// Returns the time limit for the answer to an attempt of a request.
    ///
    /// Over UDP and serial, a link opens even while the device restarts. So only an answer shows that the device has restarted. After a
    /// restart request, the conversation therefore requests the image list every second until the device answers.
    private func timeLimit(of exchange: SMPExchange) -> Duration {
        let isLooking =
            shared.link.preservesMessageBoundaries && shared.restartDeadline != nil && exchange.request == .imageState
        let attempt = exchange.probe == .reassembly ? device.probes : exchange.attempt
        return max(isLooking ? .seconds(1) : exchange.request.timeLimit(attempt: attempt), shared.link.discardTime)
    }

    /// Returns an error if the request must fit in one value and does not fit; nil if the request may be sent.
    ///
    /// If the device does not reassemble packets, each packet must fit in one value. After the error, the caller reconnects, because the
    /// next link may have longer values.
    ///
    /// If it is unknown whether the device reassembles packets, the request is normally sent in several values. The function then returns
    /// the error only if an earlier link had values that were long enough, because a new link may have such values again.
    ///
    /// A query never causes the error: the image list's request fits into every value, and the others are not necessary for the session.
    private func excess(of request: SMPRequest) -> LinkError? {
        guard device.reassembles != true, !request.isQuestion else { return nil }
        let length = request.frame(sequence: 0, version: device.version).bytes.count
        guard length > valueLength, device.reassembles == false || length <= device.longestValue else { return nil }
        return LinkError(
            .lost,
            "the link carries values of \(valueLength) bytes and the request has \(length); the device may not reassemble packets",
            remedy: .longerValues)
    }

    /// Sends a request with this sequence number.
    ///
    /// A packet that is longer than one value is split into several values. No other packet is sent between these values.
    mutating func send(_ request: SMPRequest, sequence: UInt8, demandsResponse: Bool = false) {
        let bytes = request.frame(sequence: sequence, version: device.version).bytes
        let length = max(1, valueLength)
        let values = stride(from: 0, to: bytes.count, by: length).map { Array(bytes[$0...].prefix(length)) }
        if demandsResponse, values.count == 1 {
            submit(.write(values[0], SMPChannel.value))
        } else {
            submit(.send(values, SMPChannel.value))
        }
    }

    /// The maximum length in bytes of a value that the conversation sends on this link.
    var valueLength: Int {
        let longest = shared.link.maximumValueLength
        return shared.link.preservesMessageBoundaries ? longest : ChunkLength.planned(link: longest)
    }

    // MARK: Answers

    mutating func answered(_ exchange: SMPExchange, by frame: SMPFrame) throws(SMPFrameError) {
        let answer: SMPAnswer
        do throws(SMPFrameError) {
            answer = try SMPAnswer(parsing: frame.body)
        } catch {
            guard exchange.request.isOptional else { throw error }
            return notReported(exchange)
        }
        if device.fallsBack(answer, frame) { return ask(exchange) }
        switch answer {
        case .good(let fields): try accepted(exchange, fields)
        case .bad(.busy), .bad(.noMemory): busy(exchange)
        case .bad(let error): declined(exchange, error)
        }
    }

    private mutating func accepted(
        _ exchange: SMPExchange, _ fields: [String: CBORValue]
    ) throws(SMPFrameError) {
        switch exchange.request {
        case .echo(let text): return probed(exchange, fields["r"] == .text(text) ? .echoed : .refused)
        case .parameters: buffersReported(fields)
        case .bootloader, .upload: break
        case .bootloaderMode:
            device.mode = fields["mode"]?.integer.flatMap(SMPBootloaderMode.init)
            device.wasAskedForMode = true
        case .system:
            device.hardware = fields["output"]?.shortText.flatMap { $0.isEmpty ? nil : $0 }
            device.wasAskedForBoard = true
        case .deviceInfo: device.info = SMPDeviceInfo(fields)
        case .slots: device.slots = try? SMPSlotList(fields)
        case .imageState: return try listed(SMPImageList(fields))
        case .setState(nil, confirm: false): device.marksImages = true
        case .setState: return try marked(fields)
        case .reset, .resetToLoader: return restarted()
        case .erase: return erased()
        case .writeSetting: return ask(.saveSettings)
        case .saveSettings: return restartIntoLoader()
        }
        askNext()
    }

    /// Handles the device's refusal of a request.
    private mutating func declined(_ exchange: SMPExchange, _ error: SMPError) {
        switch exchange.request {
        case .setState(nil, confirm: false):
            device.marksImages = error != .unsupported
            askNext()
        case .imageState: listRefused(error)
        case .writeSetting, .saveSettings: loaderNotNamed(error)
        case .erase where push?.toErase != nil || isEmptySlot(error): erased(wasEmpty: true)
        case let request where request.isOptional: notReported(exchange)
        case let request: fail(error.update(request))
        }
    }

    /// Continues without the feature that an optional query is about.
    private mutating func notReported(_ exchange: SMPExchange) {
        switch exchange.request {
        case .echo: return probed(exchange, .refused)
        case .system: device.wasAskedForBoard = true
        case .bootloaderMode: device.wasAskedForMode = true
        case .deviceInfo: device.info = SMPDeviceInfo()
        default: break
        }
        askNext()
    }

    private mutating func busy(_ exchange: SMPExchange) {
        // The device had no buffer for an echo request of the test. This answer is a result of the test and not an error.
        if case .room = exchange.probe { return probed(exchange, .refused) }
        requeueQuestions()
        let again = shared.now + ConversationState.busyInterval
        if exchange.request.isOptional, again > exchange.busyEnd { return notReported(exchange) }
        // If the restart window ends before the request can be sent again, the session fails.
        if let end = shared.restartDeadline, end < min(again, exchange.busyEnd) {
            return fail(
                UpdateError(
                    .deviceBusy, "the device still answers \(exchange.request.name) with busy at the time limit"))
        }
        guard let again = nextAttempt(exchange.request.name, busyEnd: exchange.busyEnd) else { return }
        state = .pausing(until: again, then: .ask(exchange))
    }

    mutating func unanswered(_ exchange: SMPExchange) {
        if exchange.probe != nil { return probed(exchange, .silence) }
        requeueQuestions()
        switch exchange.request {
        case .reset, .resetToLoader: restarted(isAnswered: false)
        case let request where request.isOptional && link.hasImageState && exchange.attempt >= Self.attemptsAfterList:
            // Losses in a row look like a device without the feature. An answer to the image list between two silences excludes them.
            guard link.silent.contains(request) else {
                link.silent.append(request)
                link.questions += [.imageState, request]
                return askNext()
            }
            notReported(exchange)
        case let request where exchange.attempt < request.attempts: send(exchange)
        case let request:
            // The device may be silent only to this query, so the next link begins with another query.
            if request.isOptional { device.unanswered.append(request) }
            let seconds = (shared.now - exchange.since).components.seconds
            breakLink(LinkError(.timedOut, "no answer to \(request.name) within \(seconds) s"))
        }
    }

    /// Moves the queries in flight back to the start of `questions`. From then on, the conversation sends only one query at a time, because
    /// the device has failed to answer several queries at the same time.
    private mutating func requeueQuestions() {
        guard !asked.isEmpty else { return }
        link.questions = asked.map(\.request) + link.questions
        state = .asking([])
        device.needsSequentialQuestions = true
    }
}
