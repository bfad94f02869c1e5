import OTAClient
import OTAEngine
import OTASMP
import OTASimulator
import OTAUpdate
import Synchronization
import Testing

@Suite("Pushes to several devices at the same time, in virtual time") struct PushPoolTests {
    private struct Fault: Error {}

    /// Runs a push of 10 s to each device: 1 s to connect, 4 s of transfer and 5 s of restart.
    ///
    /// - Parameter failing: the devices that cannot be reached.
    private func run(
        _ count: Int, atOnce: Int, failing: Set<Int> = [], interruptAt: Duration? = nil, limit: Duration? = nil
    ) throws -> (outcomes: [PushPool<Int>.Outcome], duration: Duration, events: [String]) {
        let time = VirtualTime()
        var policy = PushQueue.Policy()
        policy.atOnce = atOnce
        let queue = PushQueue((0..<count).map { _ in PushQueue.Entry(lane: .udp) }, policy)
        return try time.run {
            let begun = time.now
            let pool = PushPool<Int>(
                end: { result in
                    switch result {
                    case .success: .updated(trial: nil)
                    case .failure: .unreachable
                    }
                },
                push: { index, interrupts, gate, _ in
                    if failing.contains(index) { throw Fault() }
                    guard gate(.sending, nil) else { throw Fault() }
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        group.addTask {
                            try await time.sleep(for: .seconds(5))
                            guard gate(.marked, nil) else { throw Fault() }
                            try await time.sleep(for: .seconds(5))
                        }
                        group.addTask {
                            for await _ in interrupts { throw Fault() }
                            try await time.sleep(for: .seconds(1000))
                        }
                        defer { group.cancelAll() }
                        try await group.next()
                    }
                    return index
                })
            let (interrupts, interrupt) = AsyncStream.makeStream(of: Void.self)
            // A child task, because an unstructured task would not run in virtual time.
            async let timer: Void = {
                guard let interruptAt else { return }
                try await time.sleep(for: interruptAt)
                interrupt.yield()
            }()
            var events: [String] = []
            let outcomes = await pool.run(queue, count: count, interrupts: interrupts, clock: time, limit: limit) {
                switch $0 {
                case .started(let index): events.append("start \(index)")
                case .postponed(let index, _): events.append("postpone \(index)")
                case .ended(let index, _): events.append("end \(index)")
                case .failed(let index, _): events.append("fail \(index)")
                case .progress, .limited, .halted, .heldBack: break
                }
            }
            try await timer
            return (outcomes, begun.duration(to: time.now), events)
        }
    }

    @Test("the transfers of the next devices overlap the restarts of the previous devices")
    func overlap() throws {
        #expect(try run(8, atOnce: 8).duration == .seconds(10))
        // 4 rounds of 2 transfers of 5 s, and the last restart of 5 s.
        #expect(try run(8, atOnce: 2).duration == .seconds(25))
        let (outcomes, _, events) = try run(3, atOnce: 1)
        #expect(events == ["start 0", "start 1", "end 0", "start 2", "end 1", "end 2"])
        for (index, outcome) in outcomes.enumerated() {
            guard case .ended(.success(index), .seconds(10)) = outcome else {
                Issue.record("\(outcome)")
                continue
            }
        }
    }

    @Test("a device that cannot be reached is tried 3 times and keeps its last error")
    func unreachable() throws {
        let (outcomes, _, events) = try run(2, atOnce: 1, failing: [0])
        #expect(events == ["start 0", "postpone 0", "start 1", "start 0", "postpone 0", "start 0", "fail 0", "end 1"])
        guard case .ended(.failure(is Fault), _) = outcomes[0], case .ended(.success(1), _) = outcomes[1] else {
            Issue.record("\(outcomes)")
            return
        }
    }

    @Test("an interrupt stops the running pushes, and no further push starts")
    func interrupt() throws {
        let (outcomes, duration, events) = try run(3, atOnce: 1, interruptAt: .seconds(3))
        #expect(events == ["start 0", "fail 0"] && duration == .seconds(3))
        guard case .ended(.failure(is Fault), _) = outcomes[0], case .notStarted = outcomes[1] else {
            Issue.record("\(outcomes)")
            return
        }
    }

    @Test("no push starts after the time limit, and a running push ends by its own limit")
    func limit() throws {
        let (outcomes, duration, events) = try run(3, atOnce: 1, limit: .seconds(2))
        #expect(events == ["start 0", "end 0"] && duration == .seconds(10))
        guard case .ended(.success(0), _) = outcomes[0], case .notStarted = outcomes[2] else {
            Issue.record("\(outcomes)")
            return
        }
    }

    /// Device 0 is missing. The others answer after 2 s, device 1 first, and ask for permission.
    @Test("an interrupt during the search for the first device stops all pushes; refused devices have not started")
    func interruptedSearch() throws {
        let time = VirtualTime()
        var policy = PushQueue.Policy()
        policy.first = 1
        let queue = PushQueue((0..<4).map { _ in PushQueue.Entry(lane: .udp) }, policy)
        let (outcomes, events) = try time.run {
            let pool = PushPool<Int>(
                end: { _ in .failed },
                push: { index, interrupts, gate, _ in
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        group.addTask {
                            try await time.sleep(for: .seconds(1) + .milliseconds(index))
                            if index == 0 {
                                _ = gate(.searching, LinkError(.timedOut, "no answer"))
                            } else {
                                try await time.sleep(for: .seconds(1))
                                guard gate(.sending, nil) else { throw Fault() }
                            }
                            try await time.sleep(for: .seconds(1000))
                        }
                        group.addTask {
                            for await _ in interrupts { throw Fault() }
                            try await time.sleep(for: .seconds(1000))
                        }
                        defer { group.cancelAll() }
                        try await group.next()
                    }
                    return index
                })
            let (interrupts, interrupt) = AsyncStream.makeStream(of: Void.self)
            async let timer: Void = {
                try await time.sleep(for: .seconds(10))
                interrupt.yield()
            }()
            var events: [String] = []
            let outcomes = await pool.run(queue, count: 4, interrupts: interrupts, clock: time) {
                switch $0 {
                case .started(let index): events.append("start \(index)")
                case .heldBack(let index): events.append("hold back \(index)")
                case .ended(let index, _): events.append("end \(index)")
                case .failed(let index, _): events.append("fail \(index)")
                case .progress, .limited, .halted, .postponed: break
                }
            }
            try await timer
            return (outcomes, events)
        }
        #expect(
            events.prefix(6) == ["start 0", "start 1", "start 2", "start 3", "hold back 2", "hold back 3"]
                && events.suffix(2).sorted() == ["fail 0", "fail 1"] && events.count == 8, "\(events)")
        for (index, outcome) in outcomes.enumerated() {
            switch outcome {
            case .ended: #expect(index < 2)
            case .notStarted: #expect(index >= 2)
            }
        }
    }

    /// The failed attempts to connect of a session with SMP over links on which nothing answers, as over UDP to a host that is switched off.
    private static func missingDevice(
        _ time: VirtualTime
    ) async throws -> (failures: [(LinkError, Duration)], end: UpdateError, after: Duration) {
        let begun = time.now
        let failures = Mutex<[(LinkError, Duration)]>([])
        let runner = UpdateRunner(
            clock: time,
            gate: { _, error in
                if let error { failures.withLock { $0.append((error, begun.duration(to: time.now))) } }
                return true
            })
        do {
            _ = try await runner.run(
                UpdateSession(try SMPConversation(.status), seed: 1), over: SilentTransport(),
                interrupts: AsyncStream { _ in })
            throw Fault()
        } catch let error as UpdateError {
            return (failures.withLock { $0 }, error, begun.duration(to: time.now))
        }
    }

    @Test("with the default limits, 1000 UDP devices that are missing take 101 minutes, and each is tried 3 times")
    func allMissing() throws {
        let count = 1000
        let time = VirtualTime()
        var policy = PushQueue.Policy()
        policy.first = 1
        let queue = PushQueue((0..<count).map { _ in PushQueue.Entry(lane: .udp) }, policy)
        let (duration, tries, most) = try time.run {
            let missing = try await Self.missingDevice(time)
            #expect(
                missing.end.code == .noAnswer && missing.failures.count == 3 && missing.after > .seconds(63)
                    && missing.after < .seconds(65))
            let begun = time.now
            var (tries, running, most) = ([Int](repeating: 0, count: count), 0, 0)
            let pool = PushPool<Int>(
                end: { result in
                    switch result {
                    case .success: .updated(trial: nil)
                    case .failure(let error): PushQueue.End(.failure(error))
                    }
                },
                push: { index, _, gate, _ in
                    let start = time.now
                    for (error, at) in missing.failures {
                        try await time.sleep(until: start.advanced(by: at), tolerance: nil)
                        _ = gate(.searching, error)
                    }
                    try await time.sleep(until: start.advanced(by: missing.after), tolerance: nil)
                    throw missing.end
                })
            let outcomes = await pool.run(queue, count: count, interrupts: AsyncStream { _ in }, clock: time) {
                switch $0 {
                case .started(let index):
                    tries[index] += 1
                    running += 1
                    most = max(most, running)
                case .postponed, .ended, .failed: running -= 1
                case .progress, .limited, .halted, .heldBack: break
                }
            }
            #expect(outcomes.allSatisfy { if case .ended(.failure, _) = $0 { true } else { false } })
            return (begun.duration(to: time.now), tries, most)
        }
        #expect(tries.allSatisfy { $0 == PushQueue.attempts } && most == 32)
        #expect(duration > .seconds(100 * 60) && duration < .seconds(101 * 60), "\(duration)")
    }

    /// A transport whose links open and never receive a value.
    private struct SilentTransport: Transport {
        func runLink(opened: (any Link) -> Void, receive: @escaping LinkSink) async throws(LinkError) -> LinkError {
            let link = QueuedLink(
                LinkProperties(channels: [SMPChannel.value], maximumValueLength: 1472, preservesMessageBoundaries: true)
            )
            opened(link)
            async let end = link.waitForEnd()
            for await case .subscribe(let channel) in link.commands { receive(.subscribed(channel)) }
            return await end
        }
    }
}
