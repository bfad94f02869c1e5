import OTASMP
import Testing

/// The host's half of an upload, with the answers that real servers were seen to give.
@Suite struct SMPUploadTests {
    private static let bytes = (0..<10_000).map { UInt8(truncatingIfNeeded: $0) }

    /// An upload, and the sequence numbers of what is in flight.
    private struct Flight {
        var upload: SMPUpload
        var sequence: UInt8 = 0
        var chunks: [UInt8: SMPChunk] = [:]
        var now = Duration.zero

        init(window: Int, longestFrame: Int = 500, delivery: SMPUpload.Delivery = .whole) {
            upload = SMPUpload(
                SMPUploadTests.bytes, digest: [UInt8](repeating: 7, count: 32), image: 0, longestFrame: longestFrame,
                window: SMPWindow(limit: window, size: window, delivery: delivery), delivery: delivery)
        }

        /// Sends what may be sent.
        mutating func send() -> [UInt8] {
            var sent: [UInt8] = []
            while let chunk = upload.nextChunk() {
                sequence &+= 1
                chunks[sequence] = chunk
                upload.sent(chunk, sequence: sequence, at: now)
                sent.append(sequence)
            }
            return sent
        }

        mutating func answer(_ sequence: UInt8, _ offset: Int) -> SMPUpload.Verdict {
            upload.answered(sequence, offset: offset, match: nil, at: .seconds(1))
        }

        func end(_ sequence: UInt8) -> Int { chunks[sequence].map { $0.offset + $0.data.count } ?? -1 }

        /// With the first chunk taken, and the window full.
        static func open(window: Int) -> (Flight, [UInt8]) {
            var flight = Flight(window: window)
            let first = flight.send()
            #expect(first == [1] && flight.end(1) == 32)
            #expect(flight.answer(1, 32) == .agreed)
            let sent = flight.send()
            return (flight, sent)
        }
    }

    @Test func sendsTheFirstChunkAloneAndFillsTheWindowThen() throws {
        let (flight, sent) = Flight.open(window: 3)
        #expect(sent == [2, 3, 4])
        let opening = try #require(flight.chunks[1]?.opening)
        #expect(opening.length == 10_000 && opening.image == 0)
        for sequence in sent {
            let chunk = try #require(flight.chunks[sequence])
            #expect(chunk.opening == nil)
            #expect(SMPRequest.upload(chunk).frame(sequence: 0, version: .second).bytes.count == 500)
        }
    }

    @Test func endsWhenAllIsAcknowledged() {
        var (flight, sent) = Flight.open(window: 2)
        while let sequence = sent.first {
            sent.removeFirst()
            #expect(flight.answer(sequence, flight.end(sequence)) == .agreed)
            sent += flight.send()
        }
        #expect(flight.upload.isComplete && flight.upload.sentOffset == 10_000)
    }

    @Test func goesOnWhereAnEarlierUploadEnded() {
        var flight = Flight(window: 3)
        _ = flight.send()
        #expect(flight.answer(1, 5000) == .agreed)
        #expect(flight.upload.isOpen && flight.upload.acknowledgedOffset == 5000)
        #expect(flight.send() == [2, 3, 4] && flight.chunks[2]?.offset == 5000)
    }

    /// One more packet than there are buffers: the first one is refused, and those behind it repeat the old offset.
    @Test func drainsWhatIsOutOfStep() {
        var (flight, sent) = Flight.open(window: 3)
        #expect(flight.upload.bufferFull(2, at: .zero) == .agreed)
        #expect(flight.send().isEmpty)
        #expect(flight.answer(3, 32) == .agreed)
        #expect(flight.send().isEmpty)
        #expect(flight.answer(4, 32) == .rewound(resent: flight.end(4) - 32))
        #expect(flight.upload.window.size == 1)
        sent = flight.send()
        #expect(sent == [5] && flight.chunks[5]?.offset == 32)
    }

    @Test("an upload goes on after the window has drained, even if the last answer is to its own chunk")
    func goesOnAfterTheWindowHasDrained() {
        var (flight, _) = Flight.open(window: 3)
        _ = flight.upload.bufferFull(2, at: .zero)
        _ = flight.answer(3, 32)
        _ = flight.answer(4, flight.end(4))
        #expect(!flight.send().isEmpty)
    }

    /// The answers come in order: with the third one the first two are settled.
    @Test func aLaterAnswerSettlesTheEarlierOnes() {
        var (flight, _) = Flight.open(window: 3)
        #expect(flight.answer(4, 32) == .rewound(resent: flight.end(4) - 32))
        #expect(flight.answer(2, flight.end(2)) == .agreed)
        #expect(flight.upload.acknowledgedOffset == 32)
    }

    @Test(
        "an answer that arrives twice causes no bytes to be sent again, with 1024 buffers in the device",
        arguments: [0, 120])
    func ignoresDuplicatedAnswers(late: Int) throws {
        let parameters = try SMPParameters(["buf_size": CBORValue(60), "buf_count": CBORValue(1024)])
        var upload = Flight(window: parameters.window, longestFrame: 60, delivery: .lossy).upload
        var sent: [(sequence: UInt8, end: Int)] = []
        var answered = 0
        repeat {
            while let chunk = upload.nextChunk() {
                let sequence = UInt8(truncatingIfNeeded: sent.count)
                upload.sent(chunk, sequence: sequence, at: .zero)
                sent.append((sequence, chunk.offset + chunk.data.count))
            }
            try #require(answered < sent.count)
            for index in [answered, answered - late] where index >= 0 {
                let (sequence, end) = sent[index]
                try #require(upload.answered(sequence, offset: end, match: nil, at: .zero) == .agreed)
                try #require(!upload.isDraining && upload.acknowledgedOffset == sent[answered].end)
            }
            answered += 1
        } while !upload.isComplete
        #expect(sent.count > 256 && sent.map(\.end) == sent.map(\.end).sorted())
    }

    /// A device that restarted has forgotten all, and wants the length anew.
    @Test func opensAnewAtOffsetZero() {
        var (flight, _) = Flight.open(window: 1)
        guard case .rewound = flight.answer(2, 0) else {
            Issue.record("not rewound")
            return
        }
        #expect(flight.send() == [3] && flight.chunks[3]?.opening != nil)
    }

    @Test func believesNoOffsetPastTheEnd() {
        var (flight, _) = Flight.open(window: 1)
        #expect(flight.answer(2, 10_001) == .impossible(offset: 10_001))
        var other = Flight.open(window: 1).0
        #expect(other.answer(2, -1) == .impossible(offset: -1))
    }

    @Test func sendsAgainAfterASilence() {
        var (flight, _) = Flight.open(window: 3)
        #expect(flight.upload.deadline == .seconds(4))
        #expect(flight.upload.timedOut() == .rewound(resent: flight.end(4) - 32))
        _ = flight.send()
        _ = flight.upload.timedOut()
        _ = flight.send()
        #expect(flight.upload.timedOut() == nil)
    }

    /// Nobody knows how slow the link is before the first long chunk is answered; nor how long its erase takes before the first
    /// one is.
    @Test func waitsAsLongAsTheLinkHasNeed() {
        var flight = Flight(window: 2, delivery: .fragmented)
        _ = flight.send()
        #expect(flight.upload.deadline == SMPUpload.openingLimit)
        flight.now = .seconds(9)
        #expect(flight.upload.answered(1, offset: 32, match: nil, at: flight.now) == .agreed)
        #expect(flight.send() == [2, 3])
        #expect(flight.upload.deadline == .seconds(29))
        // Quick: what is behind it is not waited for much longer.
        #expect(flight.upload.answered(2, offset: flight.end(2), match: nil, at: .milliseconds(9100)) == .agreed)
        #expect(flight.upload.deadline == .milliseconds(14_100))
        // Slow: four times as long.
        flight.now = .milliseconds(12_100)
        #expect(flight.upload.answered(3, offset: flight.end(3), match: nil, at: flight.now) == .agreed)
        _ = flight.send()
        #expect(flight.upload.deadline == .milliseconds(24_100))
    }

    /// Where a datagram may get lost it is sent again soon, and then later and later.
    @Test func sendsALostDatagramAgainSoon() {
        var flight = Flight(window: 1, delivery: .lossy)
        _ = flight.send()
        #expect(flight.upload.deadline == .seconds(1))
        #expect(flight.upload.answered(1, offset: 32, match: nil, at: .zero) == .agreed)
        #expect(flight.send() == [2] && flight.upload.deadline == .seconds(4))
        #expect(flight.upload.answered(2, offset: flight.end(2), match: nil, at: .milliseconds(30)) == .agreed)
        for wait in [500, 1000, 2000, 4000, 4000] as [Int64] {
            _ = flight.send()
            #expect(flight.upload.deadline == flight.now + .milliseconds(wait))
            flight.now += .milliseconds(wait)
            let isOver = flight.upload.timedOut() == nil
            #expect(isOver == (flight.now == .milliseconds(11_500)))
        }
    }

    /// The longest string for each length of frame, where a head grows.
    @Test func fillsFramesOfAnyLength() {
        for longest in 30...700 {
            let capacity = SMPChunk.capacity(offset: 70_000, longest: longest)
            guard capacity > 0 else { continue }
            func length(_ count: Int) -> Int {
                let chunk = SMPChunk(offset: 70_000, data: [UInt8](repeating: 0, count: count))
                return SMPRequest.upload(chunk).frame(sequence: 0, version: .second).bytes.count
            }
            #expect(length(capacity) <= longest && length(capacity + 1) > longest, "\(longest)")
        }
    }
}
