import OTAFirmware
import OTASimulator
import OTAUpdate
import Testing

/// Writes chunks to a device faster than its thread handles them. The thread needs 10 ms for each chunk.
@Suite("Queue of a virtual device") struct DeviceQueueTests {
    private static let start = Duration.seconds(1)

    /// A connection to a device that has accepted BEGIN.
    private final class Host: @unchecked Sendable {
        let device: VirtualDevice
        /// The number of the next chunk.
        private var sequence: UInt16 = 0
        /// The answers, without the tag.
        private(set) var answers: [[UInt8]] = []

        /// Sends BEGIN of the envelope at `start`.
        init(_ change: (inout VirtualDeviceConfiguration) -> Void = { _ in }) throws {
            device = try Example.device {
                $0.chunkTime = .milliseconds(10)
                change(&$0)
            }
            device.observe(
                onNotification: { [unowned self] _, channel, value in
                    if channel == VirtualGATT.control { answers.append([value[0]] + value.dropFirst(2)) }
                    return true
                }, onRestart: {})
            #expect(device.connect(1, valueLength: 495, at: start))
            try device.subscribe(1, to: VirtualGATT.control, at: start)
            try begin(1, Example.envelope, digest: Example.digests.envelope, at: start)
        }

        func request(_ opcode: UInt8, _ arguments: [UInt8] = [], at now: Duration) throws {
            try device.write(1, VirtualGATT.control, [opcode, 0x20] + arguments, at: now)
        }

        func begin(_ object: UInt8, _ bytes: [UInt8], digest: [UInt8], at now: Duration) throws {
            var arguments = ByteWriter()
            arguments.write(object)
            arguments.write(UInt32(bytes.count))
            arguments.write(UInt32(0))
            arguments.write(digest)
            try request(1, arguments.bytes, at: now)
            let answer = try #require(answers.last)
            #expect(answer.starts(with: [0x81, 0]))
            sequence = UInt16(answer[2]) | UInt16(answer[3]) << 8
        }

        /// Sends the whole object in chunks of at most `length` bytes, or its first `count` chunks. All chunks arrive at `now`.
        func send(_ bytes: [UInt8], length: Int, count: Int = .max, at now: Duration) throws {
            for start in stride(from: 0, to: bytes.count, by: length).prefix(count) {
                try device.write(
                    1, VirtualGATT.data,
                    [UInt8(truncatingIfNeeded: sequence), UInt8(sequence >> 8)] + bytes[start...].prefix(length),
                    at: now)
                sequence &+= 1
            }
        }

        /// Sends SYNC, and returns the offset in its answer. Returns nil if the device has not answered by `end`.
        func offset(at now: Duration, answerBy end: Duration) throws -> UInt32? {
            let before = answers.count
            try request(2, [UInt8(truncatingIfNeeded: sequence), UInt8(sequence >> 8)], at: now)
            _ = device.poll(at: end)
            guard answers.count > before, let answer = answers.last, answer.starts(with: [0x82, 0]) else { return nil }
            var reader = ByteReader(Array(answer.dropFirst(4)))
            return try reader.read()
        }

        /// Sends the envelope, and BEGIN of the image 1 s after `start`.
        func beginImage() throws {
            try send(Example.envelope, length: 400, at: DeviceQueueTests.start)
            try request(3, at: DeviceQueueTests.start + .milliseconds(500))
            #expect(answers.last == [0x83, 0])
            try begin(2, Example.image, digest: Example.digests.image, at: DeviceQueueTests.start + .seconds(1))
        }
        private var start: Duration { DeviceQueueTests.start }
    }

    @Test(
        "a queue of N chunks keeps N chunks that arrive while the thread is busy, and drops the next one",
        arguments: [1, 4])
    func length(_ length: Int) throws {
        for (sent, kept) in [(length, length), (length + 1, length + 1), (length + 2, length + 1)] {
            let host = try Host { $0.queueLength = length }
            // The thread handles the first chunk, and the other chunks wait.
            try host.send(Example.envelope, length: 10, count: sent, at: Self.start)
            #expect(try host.offset(at: Self.start, answerBy: .seconds(2)) == UInt32(10 * kept), "\(sent) chunks")
        }
    }

    @Test("a place in the queue is free again when the thread starts with its chunk")
    func placeIsFreeAgain() throws {
        let host = try Host { $0.queueLength = 1 }
        for count in 0..<4 {
            try host.send(
                Array(Example.envelope[(10 * count)...]), length: 10, count: 1,
                at: Self.start + .milliseconds(9 * count))
        }
        // The chunks arrive at 0, 9, 18 and 27 ms. The thread starts with them at 0, 10, 20 and 30 ms.
        #expect(try host.offset(at: Self.start + .milliseconds(27), answerBy: .seconds(2)) == 40)
    }

    @Test("a queue without a limit keeps all chunks, and a request waits 10 ms for each chunk before it")
    func time() throws {
        for (wait, answer) in [(49, nil), (50, 50)] as [(Int, UInt32?)] {
            let host = try Host()
            try host.send(Example.envelope, length: 10, count: 5, at: Self.start)
            #expect(try host.offset(at: Self.start, answerBy: Self.start + .milliseconds(wait)) == answer)
        }
    }

    @Test("a full queue has room for a request")
    func requestInFullQueue() throws {
        let host = try Host { $0.queueLength = 1 }
        try host.send(Example.envelope, length: 10, count: 9, at: Self.start)
        #expect(try host.offset(at: Self.start, answerBy: Self.start + .milliseconds(20)) == 20)
    }

    @Test("a power cut while the device handles a chunk switches the device off before the time of the chunk ends")
    func powerCutInChunk() throws {
        let host = try Host()
        try host.beginImage()
        let now = Self.start + .seconds(2)
        try host.send(Example.image, length: 400, count: 1, at: now)
        _ = host.device.schedule([PowerCut(operation: 1, moment: .during)], worn: [])
        let operations = host.device.flashOperationCount
        // The device writes the first page while it handles this chunk.
        try host.send(Array(Example.image[400...]), length: 400, at: now + .milliseconds(50))
        #expect(host.device.flashOperationCount == operations + 1)
        #expect(host.device.running == nil && host.device.restartCount == 1)
        #expect(host.device.bootState != nil)
    }

    @Test("a power cut while the device empties its queue after a lost link switches the device off")
    func powerCutInQueue() throws {
        let host = try Host()
        try host.beginImage()
        let now = Self.start + .seconds(2)
        try host.send(Example.image, length: 100, at: now)
        _ = host.device.schedule([PowerCut(operation: 1, moment: .during)], worn: [])
        let operations = host.device.flashOperationCount
        host.device.disconnect(1, at: now)
        #expect(host.device.flashOperationCount == operations + 1)
        #expect(host.device.running == nil && host.device.restartCount == 1)
        #expect(host.device.bootState != nil)
    }
}
