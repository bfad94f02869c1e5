import OTASMP
import Testing

/// Tests the host's part of an upload with answers that were seen from real servers.
@Suite("Upload over SMP") struct SMPUploadTests {
    private static let bytes = (0..<10_000).map { UInt8(truncatingIfNeeded: $0) }

    /// An upload and its sent chunks by sequence number.
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

        /// Sends all chunks that the window allows and returns their sequence numbers.
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

        /// Returns an upload whose first chunk is acknowledged and whose window is full.
        static func open(window: Int) -> (Flight, [UInt8]) {
            var flight = Flight(window: window)
            let first = flight.send()
            #expect(first == [1] && flight.end(1) == 32)
            #expect(flight.answer(1, 32) == .agreed)
            let sent = flight.send()
            return (flight, sent)
        }
    }

    @Test("an upload sends the first chunk alone, and then fills the window")
    func sendsTheFirstChunkAloneAndFillsTheWindowThen() throws {
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

    @Test("an answer rounded down to the device's write unit is not a gap", arguments: [1, 2, 31, 32])
    func anAnswerRoundedDown(missing: Int) throws {
        var (flight, sequences) = Flight.open(window: 1)
        let sequence = sequences.removeFirst()
        let end = flight.end(sequence)
        let verdict = flight.answer(sequence, end - missing)
        #expect(verdict == (missing < 32 ? .agreed : .rewound(resent: missing)))
        let following = flight.send()
        let next = try #require(following.first)
        #expect(flight.chunks[next]?.offset == end - missing)
        if missing < 32 { #expect(flight.end(next) % 32 == 0) }
    }

    @Test("an answer that repeats the old offset is a gap, also for a chunk that is shorter than a write unit")
    func aDroppedShortChunk() throws {
        var flight = Flight(window: 1, longestFrame: 50)
        #expect(flight.send() == [1] && flight.answer(1, 32) == .agreed)
        let second = flight.send()
        let sequence = try #require(second.first)
        #expect(flight.end(sequence) - 32 < 32)
        #expect(flight.answer(sequence, 32) == .rewound(resent: flight.end(sequence) - 32))
    }

    @Test("an upload is complete when all chunks are acknowledged")
    func endsWhenAllIsAcknowledged() {
        var (flight, sent) = Flight.open(window: 2)
        while let sequence = sent.first {
            sent.removeFirst()
            #expect(flight.answer(sequence, flight.end(sequence)) == .agreed)
            sent += flight.send()
        }
        #expect(flight.upload.isComplete && flight.upload.sentOffset == 10_000)
    }

    @Test("an upload resumes from the offset of an earlier upload")
    func goesOnWhereAnEarlierUploadEnded() {
        var flight = Flight(window: 3)
        _ = flight.send()
        #expect(flight.answer(1, 5000) == .agreed)
        #expect(flight.upload.isOpen && flight.upload.acknowledgedOffset == 5000)
        #expect(flight.send() == [2, 3, 4] && flight.chunks[2]?.offset == 5000)
    }

    // There is one packet more than there are buffers. The device refuses the first one. Its later answers repeat the old offset.
    @Test("an upload waits for all pending answers after a full buffer, and then resends with a smaller window")
    func drainsWhatIsOutOfStep() {
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

    @Test("an upload continues after the window has drained, even if the last answer acknowledges its own chunk")
    func goesOnAfterTheWindowHasDrained() {
        var (flight, _) = Flight.open(window: 3)
        _ = flight.upload.bufferFull(2, at: .zero)
        _ = flight.answer(3, 32)
        _ = flight.answer(4, flight.end(4))
        #expect(!flight.send().isEmpty)
    }

    // A device answers in order. The third answer shows that the first two are lost.
    @Test("an answer also settles the earlier chunks in flight")
    func aLaterAnswerSettlesTheEarlierOnes() {
        var (flight, _) = Flight.open(window: 3)
        #expect(flight.answer(4, 32) == .rewound(resent: flight.end(4) - 32))
        #expect(flight.answer(2, flight.end(2)) == .agreed)
        #expect(flight.upload.acknowledgedOffset == 32)
    }

    @Test(
        "a duplicated answer does not cause a resend, even if the device has 1024 buffers",
        arguments: [0, 120])
    func ignoresDuplicatedAnswers(late: Int) throws {
        let parameters = SMPParameters(["buf_size": CBORValue(600), "buf_count": CBORValue(1024)])
        let window = try #require(parameters.window)
        var upload = Flight(window: window, longestFrame: 60, delivery: .lossy(discardTime: .zero)).upload
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

    // A restarted device has discarded the upload and needs the length again.
    @Test("an upload sends the length again if the device asks for offset 0")
    func opensAnewAtOffsetZero() {
        var (flight, _) = Flight.open(window: 1)
        guard case .rewound = flight.answer(2, 0) else {
            Issue.record("not rewound")
            return
        }
        #expect(flight.send() == [3] && flight.chunks[3]?.opening != nil)
    }

    @Test("a negative offset or an offset past the end is impossible")
    func believesNoOffsetPastTheEnd() {
        var (flight, _) = Flight.open(window: 1)
        #expect(flight.answer(2, 10_001) == .impossible(offset: 10_001))
        var other = Flight.open(window: 1).0
        #expect(other.answer(2, -1) == .impossible(offset: -1))
    }

    @Test("an upload resends after a timeout, and ends at the third timeout in a row")
    func sendsAgainAfterASilence() {
        var (flight, _) = Flight.open(window: 3)
        #expect(flight.upload.deadline == .seconds(4))
        #expect(flight.upload.timedOut() == .rewound(resent: flight.end(4) - 32))
        _ = flight.send()
        _ = flight.upload.timedOut()
        _ = flight.send()
        #expect(flight.upload.timedOut() == nil)
    }

    @Test(
        "after a long packet without an answer, an upload sends one short packet at the same offset, and then the long one"
    )
    func sendsAShortPacketAfterALongOne() {
        var (flight, _) = Flight.open(window: 3)
        #expect(flight.upload.timedOut() == .rewound(resent: flight.end(4) - 32))
        #expect(flight.upload.window.size == 3, "the loss does not show that the window is too large")
        #expect(flight.send() == [5] && flight.chunks[5]?.offset == 32)
        #expect(flight.chunks[5]?.packetLength == SMPPacketLimit.shortest)
        #expect(flight.answer(5, flight.end(5)) == .agreed)
        #expect(flight.upload.pause == SMPPacketLimit.pause)
        #expect(flight.send() == [6] && flight.chunks[6]?.packetLength == 500)
        #expect(flight.answer(6, flight.end(6)) == .agreed)
        #expect(flight.upload.pause == .zero)
        #expect(flight.send().count == 3)
    }

    // The device needs more time than the timeout. It answers the short packet with the offset after the long one.
    @Test("an offset after the end of a short packet shows that the device received the long packet")
    func seesThatALongPacketArrived() {
        var (flight, _) = Flight.open(window: 1)
        _ = flight.upload.timedOut()
        #expect(flight.send() == [3] && flight.chunks[3]?.packetLength == SMPPacketLimit.shortest)
        _ = flight.answer(3, flight.end(2))
        #expect(flight.upload.pause < SMPPacketLimit.pause)
        #expect(flight.send() == [4] && flight.chunks[4]?.packetLength == 500)
    }

    @Test("the length of a packet is the length of its bytes", arguments: [0, 1, 23, 24, 255, 256, 400, 3000])
    func computesThePacketLength(count: Int) {
        let opening = SMPChunk.Opening(length: 70_000, digest: [UInt8](repeating: 7, count: 32), image: 1)
        for chunk in [SMPChunk(offset: 70_000, data: []), SMPChunk(opening: opening, offset: 0, data: [])] {
            var chunk = chunk
            chunk.data = [UInt8](repeating: 1, count: count)
            #expect(chunk.packetLength == SMPRequest.upload(chunk).frame(sequence: 0, version: .second).bytes.count)
        }
    }

    // The host knows the erase time after the answer to the first chunk, and the link's speed after the first long chunk.
    @Test("the timeout adapts to the speed of the link")
    func waitsAsLongAsTheLinkHasNeed() {
        var flight = Flight(window: 2, delivery: .fragmented)
        _ = flight.send()
        #expect(flight.upload.deadline == SMPUpload.openingLimit)
        flight.now = .seconds(9)
        #expect(flight.upload.answered(1, offset: 32, match: nil, at: flight.now) == .agreed)
        #expect(flight.send() == [2, 3])
        #expect(flight.upload.deadline == .seconds(29))
        // After a fast answer the next timeout is short: 5 s.
        #expect(flight.upload.answered(2, offset: flight.end(2), match: nil, at: .milliseconds(9100)) == .agreed)
        #expect(flight.upload.deadline == .milliseconds(14_100))
        // After a slow answer the timeout is four times the answer's time.
        flight.now = .milliseconds(12_100)
        #expect(flight.upload.answered(3, offset: flight.end(3), match: nil, at: flight.now) == .agreed)
        _ = flight.send()
        #expect(flight.upload.deadline == .milliseconds(24_100))
    }

    @Test("a lost datagram is resent after 500 ms, and then after doubled waits up to 4 s")
    func sendsALostDatagramAgainSoon() {
        var flight = Flight(window: 1, delivery: .lossy(discardTime: .zero))
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

    // Tests frame lengths around the sizes at which the CBOR head of the byte string grows.
    @Test("a chunk has the largest number of bytes that fits the frame")
    func fillsFramesOfAnyLength() {
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
