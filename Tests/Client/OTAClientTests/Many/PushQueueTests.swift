import OTAClient
import OTAUpdate
import Testing

@Suite("Order and number of the devices of a push to several devices") struct PushQueueTests {
    private static let air = PushQueue.Lane.bluetooth(adapter: nil)

    private static func queue(
        _ count: Int, lane: PushQueue.Lane = air, rssi: [Int?] = [],
        _ change: (inout PushQueue.Policy) -> Void = { _ in }
    ) -> Rig {
        var policy = PushQueue.Policy()
        change(&policy)
        return Rig((0..<count).map { PushQueue.Entry(lane: lane, rssi: $0 < rssi.count ? rssi[$0] : nil) }, policy)
    }

    /// A queue as an object, because `#expect` cannot call a mutating method of a value.
    private final class Rig {
        private var queue: PushQueue

        init(_ entries: [PushQueue.Entry], _ policy: PushQueue.Policy) { queue = PushQueue(entries, policy) }

        var isFinished: Bool { queue.isFinished }
        var isHalted: Bool { queue.isHalted }

        func start() -> [Int] { queue.start() }
        func enter(_ stage: UpdateStage, _ index: Int) -> Bool { queue.enter(stage, index) }
        func connectionFailed(_ error: LinkError, of index: Int) -> Int? { queue.connectionFailed(error, of: index) }
        func ended(_ index: Int, _ end: PushQueue.End) -> PushQueue.Next { queue.ended(index, end) }
        func lane(of index: Int) -> PushQueue.Lane { queue.lane(of: index) }
        func limit(of lane: PushQueue.Lane) -> Int { queue.limit(of: lane) }
    }

    @Test(
        "the device with the strongest signal starts first, and devices without a signal start last in the given order")
    func order() {
        let queue = Self.queue(5, rssi: [nil, -80, -40, nil, -60]) { $0.atOnce = 1 }
        var started: [Int] = []
        while let index = queue.start().first {
            started.append(index)
            #expect(queue.ended(index, .updated(trial: nil)) == .finished)
        }
        #expect(started == [2, 4, 1, 0, 3] && queue.isFinished)
    }

    @Test(
        "by default, 4 devices use an adapter, 32 use UDP, and each serial port has one device",
        arguments: [
            (PushQueue.Lane.bluetooth(adapter: "hci0"), 4), (.udp, 32), (.serial("/dev/ttyACM0"), 1), (.simulated, 4),
        ])
    func usualLimits(lane: PushQueue.Lane, limit: Int) {
        let queue = Self.queue(40, lane: lane)
        #expect(queue.start().count == limit && queue.start().isEmpty)
        _ = queue.ended(0, .failed)
        #expect(queue.start().count == 1)
    }

    @Test("devices of different adapters and transports do not wait for each other")
    func lanes() {
        let lanes: [PushQueue.Lane] = [
            .bluetooth(adapter: "hci0"), .bluetooth(adapter: "hci0"), .bluetooth(adapter: "hci1"), .udp, .serial("a"),
            .serial("b"),
        ]
        var policy = PushQueue.Policy()
        policy.atOnce = 1
        let queue = Rig(lanes.map { PushQueue.Entry(lane: $0) }, policy)
        #expect(queue.start() == [0, 2, 3, 4, 5])
    }

    @Test("a device that restarts with the new image gives its slot to the next device")
    func restart() {
        let queue = Self.queue(3) { $0.atOnce = 1 }
        #expect(queue.start() == [0])
        for stage in UpdateStage.allCases where stage < .marked {
            #expect(queue.enter(stage, 0) && queue.start().isEmpty)
        }
        #expect(queue.enter(.marked, 0))
        #expect(queue.start() == [1] && !queue.isFinished)
        #expect(queue.enter(.restarting, 0) && queue.enter(.confirming, 0))
        #expect(queue.start().isEmpty)
    }

    @Test("a push that sends the image again after the mark for boot uses its slot again")
    func sendingAgain() {
        let queue = Self.queue(3) { $0.atOnce = 1 }
        #expect(queue.start() == [0] && queue.enter(.marked, 0) && queue.enter(.sending, 0))
        #expect(queue.start().isEmpty)
        #expect(queue.enter(.marked, 0) && queue.start() == [1])
    }

    @Test("no transfer starts while so many devices are on trial that one of them could roll back before its turn")
    func trialsFirst() {
        var queue = Self.queue(8) { $0.atOnce = 8 }
        #expect(queue.start().count == 8)
        // 10 s for each device on trial, and half of the usual limit of 60 s.
        queue = Self.queue(8) { $0.atOnce = 1 }
        for index in 0..<4 {
            #expect(queue.start() == [index])
            _ = queue.enter(.marked, index)
        }
        #expect(queue.start().isEmpty)
        _ = queue.ended(0, .updated(trial: .seconds(120)))
        #expect(queue.start() == [4])

        queue = Self.queue(8) { $0.atOnce = 1 }
        for index in 0..<2 {
            #expect(queue.start() == [index])
            _ = queue.enter(.marked, index)
        }
        _ = queue.ended(0, .updated(trial: .seconds(15)))
        #expect(queue.start().isEmpty, "one device on trial needs 10 s, and half of the limit is 7.5 s")

        queue = Self.queue(8) { $0.atOnce = 1 }
        for index in 0..<3 {
            #expect(queue.start() == [index])
            _ = queue.enter(.marked, index)
        }
        _ = queue.ended(0, .updated(trial: .seconds(15)))
        _ = queue.ended(1, .updated(trial: .seconds(120)))
        #expect(queue.start().isEmpty, "the shortest limit counts")

        queue = Self.queue(3) { $0.atOnce = 1 }
        for index in 0..<2 {
            #expect(queue.start() == [index])
            _ = queue.enter(.marked, index)
        }
        _ = queue.ended(0, .updated(trial: .zero))
        #expect(queue.start() == [2], "a device without trials has no limit")

        queue = Self.queue(40, lane: .udp) { $0.atOnce = 1 }
        for index in 0..<30 {
            #expect(queue.start() == [index])
            _ = queue.enter(.marked, index)
        }
    }

    @Test("the first device is updated before the others start")
    func first() {
        var queue = Self.queue(6) { $0.first = 1 }
        #expect(queue.start() == [0] && queue.start().isEmpty)
        _ = queue.enter(.marked, 0)
        #expect(queue.start().isEmpty)
        _ = queue.ended(0, .updated(trial: nil))
        #expect(queue.start() == [1, 2, 3, 4])

        queue = Self.queue(6) { $0.first = 2 }
        #expect(queue.start() == [0, 1])
        _ = queue.ended(0, .failed)
        #expect(queue.start() == [2], "the next device replaces a first device that failed")
    }

    private static let notHeard = LinkError(.timedOut, "no answer")

    @Test(
        "after a device that cannot be reached, a lane asks as many devices as it has slots, and the first one that answers is updated"
    )
    func search() {
        let queue = Self.queue(40, lane: .udp) { $0.first = 1 }
        #expect(queue.start() == [0] && queue.start().isEmpty)
        _ = queue.connectionFailed(Self.notHeard, of: 0)
        #expect(queue.start() == Array(1..<32))
        for index in [7, 5, 9] { _ = queue.enter(.asking, index) }
        #expect(queue.enter(.sending, 7) && !queue.enter(.sending, 5) && !queue.enter(.sending, 9))
        #expect(queue.ended(9, .failed) == .heldBack && queue.ended(5, .failed) == .heldBack)
        #expect(queue.start().isEmpty, "device 7 receives the image")
        #expect(queue.ended(0, .unreachable) == .again)
        #expect(queue.start().isEmpty)
        #expect(queue.ended(7, .updated(trial: nil)) == .finished)
        #expect(queue.start() == [9, 5, 32, 33], "the devices that have answered are first")
        #expect([9, 5, 32, 33, 1].allSatisfy { queue.enter(.sending, $0) })
    }

    @Test("if the first device fails, the next device that answers replaces it, and no device starts without need")
    func replacement() {
        let queue = Self.queue(6, lane: .udp) { $0.first = 1 }
        #expect(queue.start() == [0])
        _ = queue.connectionFailed(Self.notHeard, of: 0)
        #expect(queue.start() == [1, 2, 3, 4, 5])
        #expect(queue.enter(.sending, 1) && !queue.enter(.sending, 2) && !queue.enter(.sending, 3))
        #expect(queue.ended(2, .failed) == .heldBack && queue.ended(3, .failed) == .heldBack)
        #expect(queue.ended(1, .failed) == .finished)
        #expect(queue.start() == [2] && queue.start().isEmpty)
        #expect(queue.enter(.sending, 4), "device 4 answers before device 2")
        #expect(!queue.enter(.sending, 2) && queue.ended(2, .failed) == .heldBack && queue.start().isEmpty)
        #expect(queue.ended(4, .updated(trial: nil)) == .finished)
        #expect(queue.start() == [3, 2] && queue.enter(.sending, 2))
    }

    @Test("a push that is not permitted does not count as an attempt")
    func heldBackAttempts() {
        let queue = Self.queue(2, lane: .udp) { $0.first = 1 }
        #expect(queue.start() == [0])
        _ = queue.connectionFailed(Self.notHeard, of: 0)
        #expect(queue.start() == [1] && queue.enter(.sending, 0))
        _ = queue.enter(.asking, 1)
        #expect(!queue.enter(.sending, 1) && queue.ended(1, .failed) == .heldBack)
        #expect(queue.ended(0, .updated(trial: nil)) == .finished)
        for attempt in 1...PushQueue.attempts {
            #expect(queue.start() == [1])
            #expect(queue.ended(1, .unreachable) == (attempt < PushQueue.attempts ? .again : .finished))
        }
        #expect(queue.isFinished)
    }

    @Test(
        "a bad image reaches only N devices with --first N: after the rollback, no push may begin a change, unless --keep-going is given",
        arguments: [1, 3])
    func badImage(first: Int) {
        for keepsGoing in [false, true] {
            let queue = Self.queue(64, lane: .udp) { ($0.first, $0.keepsGoing) = (first, keepsGoing) }
            #expect(queue.start() == Array(0..<first))
            _ = queue.connectionFailed(Self.notHeard, of: 0)
            #expect(queue.start() == Array(first..<32))
            let admitted = (0..<32).filter { queue.enter(.sending, $0) }
            #expect(admitted == Array(0..<first))
            for index in first..<31 { #expect(queue.ended(index, .failed) == .heldBack) }
            #expect(queue.ended(0, .lostTheImage) == .finished && queue.isHalted == !keepsGoing)
            // Device 31 was refused. The pushes that start now ask again.
            #expect(queue.ended(31, .failed) == .heldBack)
            #expect(queue.start() == (keepsGoing ? [first] : []))
            #expect(queue.enter(.sending, first) == keepsGoing)
        }
    }

    @Test("a push that connects while the push is halted may not begin a change, and its device counts as not started")
    func halted() {
        let queue = Self.queue(2)
        #expect(queue.start() == [0, 1] && queue.enter(.sending, 0))
        #expect(queue.ended(0, .lostTheImage) == .finished)
        #expect(!queue.enter(.sending, 1) && !queue.isFinished)
        #expect(queue.ended(1, .failed) == .heldBack && queue.isFinished)
    }

    @Test("a device that rolls back or does not return stops all further starts, unless --keep-going is given")
    func halt() {
        for keepsGoing in [false, true] {
            let queue = Self.queue(6) { ($0.atOnce, $0.keepsGoing) = (2, keepsGoing) }
            #expect(queue.start() == [0, 1])
            #expect(queue.ended(0, .lostTheImage) == .finished)
            #expect(queue.isHalted == !keepsGoing && queue.start() == (keepsGoing ? [2] : []))
            #expect(!queue.isFinished)
            _ = queue.ended(1, .updated(trial: nil))
            #expect(queue.isFinished == !keepsGoing)
        }
    }

    @Test("a device that cannot be reached starts again after the waiting devices, 3 times in total")
    func attempts() {
        var queue = Self.queue(3) { $0.atOnce = 1 }
        var started: [Int] = []
        while let index = queue.start().first {
            started.append(index)
            _ = queue.ended(index, index == 0 ? .unreachable : .updated(trial: nil))
        }
        #expect(started == [0, 1, 2, 0, 0])

        queue = Self.queue(1)
        #expect(queue.start() == [0])
        _ = queue.enter(.asking, 0)
        #expect(queue.ended(0, .unreachable) == .finished, "a device that has answered is not started again")
    }

    @Test("a connection that fails while other links are up lowers the limit of the adapter by 1, once for each device")
    func fewerLinks() {
        let queue = Self.queue(8)
        #expect(queue.start() == [0, 1, 2, 3])
        let failed = LinkError(.lost, "refused")
        #expect(queue.connectionFailed(failed, of: 3) == nil, "no other link is up")
        for index in 0..<3 { _ = queue.enter(.asking, index) }
        #expect(queue.connectionFailed(LinkError(.timedOut, "not heard"), of: 3) == nil)
        #expect(queue.connectionFailed(failed, of: 3) == 3 && queue.connectionFailed(failed, of: 3) == nil)
        _ = queue.ended(0, .updated(trial: nil))
        #expect(queue.start().isEmpty)
        _ = queue.ended(1, .updated(trial: nil))
        #expect(queue.start() == [4])
    }

    @Test("the limit of an adapter is never lowered below 1")
    func oneLink() {
        let queue = Self.queue(3) { $0.atOnce = 2 }
        #expect(queue.start() == [0, 1])
        _ = queue.enter(.marked, 1)
        #expect(queue.start() == [2])
        _ = queue.enter(.asking, 0)
        let failed = LinkError(.lost, "refused")
        #expect(queue.connectionFailed(failed, of: 1) == 1 && queue.connectionFailed(failed, of: 2) == nil)
        #expect(queue.limit(of: Self.air) == 1)
    }

    @Test(
        "only a rollback or a device that does not return halts the push, and only a device that was not reached starts again",
        arguments: [
            (UpdateError.Code.rolledBack, PushQueue.End.lostTheImage), (.didNotReturn, .lostTheImage),
            (.noSuchDevice, .unreachable), (.linkLost, .unreachable), (.noAnswer, .unreachable),
            (.interrupted, .failed),
            (.wrongProduct, .failed), (.imageNotRunning, .lostTheImage),
        ])
    func ends(code: UpdateError.Code, end: PushQueue.End) {
        var error = UpdateError(code, "")
        #expect(PushQueue.End(.failure(error)) == end)
        error.stoppedApplication = .overwritten
        #expect(PushQueue.End(.failure(error)) == .lostTheImage)
    }

    @Test("a first device that does not report its version stops all further starts, unless --keep-going is given")
    func returned() {
        let device = DeviceDescription(state: .unknown, runningVersion: "")
        let report = UpdateReport(outcome: .returned, updateProtocol: UpdateProtocol(rawValue: "smp"), device: device)
        #expect(PushQueue.End(report) == .returned)
        for keepsGoing in [false, true] {
            let queue = Self.queue(6) { ($0.first, $0.keepsGoing) = (1, keepsGoing) }
            #expect(queue.start() == [0])
            #expect(queue.ended(0, .returned) == .finished)
            #expect(queue.isHalted == !keepsGoing && queue.start() == (keepsGoing ? [1] : []))
        }
        let later = Self.queue(6) { ($0.first, $0.atOnce) = (1, 1) }
        #expect(later.start() == [0])
        #expect(later.ended(0, .updated(trial: nil)) == .finished && later.start() == [1])
        #expect(later.ended(1, .returned) == .finished && !later.isHalted)
    }

    /// Seeded runs: random devices, policies and results. After each step, the limits hold. At the end, every device has a result, except
    /// after a halt.
    @Test("random pushes never exceed a limit, and each device ends exactly once", arguments: 0..<200)
    func random(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let lanes: [PushQueue.Lane] = [.bluetooth(adapter: "hci0"), .bluetooth(adapter: "hci1"), .udp, .serial("a")]
        let count = Int.random(in: 1...40, using: &random)
        let entries = (0..<count).map { _ in
            PushQueue.Entry(
                lane: lanes.randomElement(using: &random) ?? .udp, rssi: Int.random(in: -90 ... -30, using: &random))
        }
        var policy = PushQueue.Policy()
        policy.atOnce = Bool.random(using: &random) ? Int.random(in: 1...6, using: &random) : nil
        policy.first = Int.random(in: 0...2, using: &random)
        policy.keepsGoing = Bool.random(using: &random)
        let queue = Rig(entries, policy)
        var (connecting, refused, transferring, onTrial, done): (Set<Int>, Set<Int>, Set<Int>, Set<Int>, Set<Int>) =
            ([], [], [], [], [])
        var updated = 0
        var starts = [Int](repeating: 0, count: count)
        while !queue.isFinished {
            for index in queue.start() {
                #expect(!done.contains(index) && !onTrial.contains(index) && connecting.insert(index).inserted)
                starts[index] += 1
            }
            let slots = connecting.union(refused).union(transferring)
            for lane in lanes {
                #expect(slots.count { queue.lane(of: $0) == lane } <= queue.limit(of: lane))
            }
            #expect(updated >= policy.first || transferring.count + onTrial.count <= policy.first)
            guard let index = slots.union(onTrial).sorted().randomElement(using: &random) else {
                Issue.record("devices wait, but none runs")
                return
            }
            switch Int.random(in: 0..<4, using: &random) {
            case 0 where connecting.contains(index):
                _ = queue.connectionFailed(LinkError(.timedOut, "not heard"), of: index)
                continue
            case 1 where connecting.contains(index):
                connecting.remove(index)
                if queue.enter(.sending, index) { transferring.insert(index) } else { refused.insert(index) }
                continue
            case 3 where transferring.contains(index):
                _ = queue.enter(.marked, index)
                transferring.remove(index)
                onTrial.insert(index)
                continue
            default: break
            }
            if refused.remove(index) != nil {
                starts[index] -= 1
                #expect(queue.ended(index, .failed) == .heldBack)
                continue
            }
            let hasImage = connecting.remove(index) == nil
            let end: PushQueue.End =
                switch Int.random(in: 0..<12, using: &random) {
                case 0: .unreachable
                case 1: .failed
                case 2 where hasImage: .lostTheImage
                default: .updated(trial: .seconds(Int.random(in: 20...120, using: &random)))
                }
            transferring.remove(index)
            onTrial.remove(index)
            if case .updated = end { updated += 1 }
            if queue.ended(index, end) == .finished { #expect(done.insert(index).inserted) }
        }
        #expect(queue.isHalted || done.count == count)
        #expect(starts.allSatisfy { $0 <= PushQueue.attempts })
    }
}
