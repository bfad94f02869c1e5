import BlueZ
import Testing

@Suite("Turns of the connection attempts") struct TurnQueueTests {
    /// Gives each waiting attempt its turn, and ends the turn at once with a connection.
    private func drained(_ turns: Turns) -> [Int] {
        let turns = turns.copy
        var tickets: [Int] = []
        while let next = turns.next(isScanning: false) {
            tickets.append(next)
            #expect(turns.end(next))
        }
        return tickets
    }

    private func turns(urgent: [Bool]) -> Turns {
        let turns = Turns()
        for (ticket, isUrgent) in urgent.enumerated() { turns.add(ticket, "\(ticket)", isUrgent: isUrgent) }
        return turns
    }

    @Test("an urgent attempt connects before the attempts that are not urgent, each in the order of arrival")
    func urgent() {
        let turns = turns(urgent: [false, true, false, true])
        #expect(drained(turns) == [1, 3, 0, 2])
        #expect([turns.remove(3), turns.remove(3), turns.remove(9)] == [3, nil, nil])
        #expect(drained(turns) == [1, 0, 2])
    }

    @Test("attempts that are not urgent connect in the order of arrival")
    func inOrder() { #expect(drained(turns(urgent: [false, false, false, false])) == [0, 1, 2, 3]) }

    @Test("only one attempt at a time has the turn, and only this attempt can end it")
    func oneTurn() {
        let turns = turns(urgent: [false, false])
        #expect(turns.next() == 0)
        #expect(turns.isTaken && turns.next() == nil)
        #expect(!turns.end(1))
        #expect(turns.end(0))
        #expect(!turns.isTaken && turns.next() == 1)
    }

    /// Returns a queue in which the device "silent" waits after a turn of this duration without a connection.
    private func turns(afterSilenceOf seconds: Double) -> Turns {
        let turns = Turns()
        turns.add(0, "silent", isUrgent: true)
        #expect(turns.next() == 0)
        #expect(turns.end(0, isConnected: false, at: .seconds(seconds)))
        turns.add(1, "silent", isUrgent: true)
        return turns
    }

    @Test("a device whose turns gave no connection for more than 3 s connects after all other devices")
    func unreachable() {
        for (seconds, expected) in [(2.9, [1, 2]), (3, [1, 2]), (3.1, [2, 1])] {
            let turns = turns(afterSilenceOf: seconds)
            turns.add(2, "other")
            #expect(drained(turns) == expected, "\(seconds) s")
        }
    }

    @Test("while scans run, the adapter rests for twice the turn before the next turn of an unreachable device")
    func rest() {
        let turns = turns(afterSilenceOf: 10)
        #expect(turns.deadline == .seconds(30))
        #expect(turns.next(at: .seconds(29.9)) == nil)
        let (other, alone) = (turns.copy, turns.copy)
        other.add(2, "other")
        #expect(other.next(at: .seconds(11)) == 2)
        #expect(alone.next(at: .seconds(11), isScanning: false) == 1)
        #expect(turns.next(at: .seconds(30)) == 1)
        #expect(turns.deadline == nil)
    }

    @Test("after a connection, a device is not unreachable any more")
    func reachedAgain() {
        let turns = turns(afterSilenceOf: 10)
        #expect(turns.next(at: .seconds(30)) == 1)
        #expect(turns.end(1, at: .seconds(31)))
        turns.add(2, "other")
        turns.add(3, "silent", isUrgent: true)
        #expect(turns.next(at: .seconds(32)) == 3)
    }

    @Test("after 600 s without a turn, a device is not unreachable any more", arguments: [609, 610])
    func forgiven(seconds: Int) {
        let turns = turns(afterSilenceOf: 10)
        turns.add(2, "other")
        #expect(turns.next(at: .seconds(11)) == 2)
        #expect(turns.end(2, at: .seconds(seconds)))
        turns.add(3, "other")
        #expect(turns.next(at: .seconds(seconds)) == (seconds < 610 ? 3 : 1))
    }

    @Test(
        "after the first turns of silent devices, another device waits for 15 s at most, and scans have 60 % of their time",
        arguments: 0..<40 as Range<UInt64>)
    func fairness(_ seed: UInt64) {
        var world = RadioWorld(silent: 1 + Int(seed % 6), seed: seed)
        for _ in 0..<9000 { world.step() }
        #expect(world.longestWait <= .seconds(15), "\(world.longestWait)")
        #expect(world.scanned >= Duration.seconds(6) * world.scans, "\(world.scanned) in \(world.scans) scans")
        #expect(world.hasTurns)
        #expect(world.connections > 20 && world.scans > 8, "\(world.connections) connections, \(world.scans) scans")
    }
}

/// A queue with reference semantics, because `#expect` cannot call mutating methods.
private final class Turns {
    private(set) var queue: TurnQueue<Int>

    init(_ queue: TurnQueue<Int> = TurnQueue()) { self.queue = queue }

    var copy: Turns { Turns(queue) }
    var isTaken: Bool { queue.isTaken }
    var deadline: Duration? { queue.deadline }

    func add(_ ticket: Int, _ device: String, isUrgent: Bool = false) {
        queue.add(ticket, ticket: ticket, device: device, isUrgent: isUrgent)
    }

    func next(at now: Duration = .zero, isScanning: Bool = true) -> Int? { queue.next(at: now, isScanning: isScanning) }

    func end(_ ticket: Int, isConnected: Bool = true, at now: Duration = .zero) -> Bool {
        queue.end(ticket: ticket, isConnected: isConnected, at: now)
    }

    func remove(_ ticket: Int) -> Int? { queue.remove(ticket: ticket) }
}

/// An adapter with silent devices, devices that answer within 3 s, and a scan of 10 s every minute. One step is 0.1 s.
private struct RadioWorld {
    private enum Device { case silent(Int), correct }

    private var queue = TurnQueue<Int>()
    private var random: SeededGenerator
    private var now = Duration.zero
    private var ticket = 0
    private var waiting: [Int: (device: Device, since: Duration)] = [:]
    private var turn: (ticket: Int, end: Duration)?
    /// The time at which a silent device is tried again; nil: its attempt waits or has the turn.
    private var silentAgain: [Duration?]
    // First, each silent device has one turn of 10 s as a device that has not failed yet.
    private var nextCorrect = Duration.seconds(80)
    private var scanStart: Duration?
    private var nextScan = Duration.seconds(80)

    private(set) var longestWait = Duration.zero
    /// The time of all scans without a turn.
    private(set) var scanned = Duration.zero
    private(set) var connections = 0
    private(set) var scans = 0
    /// False if the queue did not know the turn of an ended attempt.
    private(set) var hasTurns = true

    init(silent: Int, seed: UInt64) {
        silentAgain = Array(repeating: .zero, count: silent)
        random = SeededGenerator(seed: seed)
    }

    mutating func step() {
        now += .milliseconds(100)
        if let ended = turn, ended.end <= now { endTurn(ended.ticket) }
        for index in silentAgain.indices {
            guard let time = silentAgain[index], time <= now else { continue }
            silentAgain[index] = nil
            add(.silent(index), named: "silent \(index)", isUrgent: true)
        }
        if nextCorrect <= now {
            nextCorrect = now + .seconds(Double.random(in: 5...40, using: &random))
            add(.correct, named: "correct \(ticket)", isUrgent: false)
        }
        scan()
        if let next = queue.next(at: now, isScanning: scanStart != nil || nextScan <= now) { begin(next) }
    }

    private mutating func add(_ device: Device, named name: String, isUrgent: Bool) {
        ticket += 1
        waiting[ticket] = (device, now)
        queue.add(ticket, ticket: ticket, device: name, isUrgent: isUrgent)
    }

    private mutating func begin(_ ticket: Int) {
        guard let attempt = waiting[ticket] else { return }
        switch attempt.device {
        case .silent: turn = (ticket, now + .seconds(10))
        case .correct:
            longestWait = max(longestWait, now - attempt.since)
            turn = (ticket, now + .seconds(Double.random(in: 0.3...3, using: &random)))
        }
    }

    private mutating func endTurn(_ ticket: Int) {
        turn = nil
        guard let attempt = waiting.removeValue(forKey: ticket) else { return }
        switch attempt.device {
        case .silent(let index):
            hasTurns = queue.end(ticket: ticket, isConnected: false, at: now) && hasTurns
            silentAgain[index] = now + .seconds(Double.random(in: 2...2.5, using: &random))
        case .correct:
            connections += 1
            hasTurns = queue.end(ticket: ticket, isConnected: true, at: now) && hasTurns
        }
    }

    /// A scan starts after the current turn, lasts for 10 s, and pauses during turns.
    private mutating func scan() {
        if let start = scanStart {
            if turn == nil { scanned += .milliseconds(100) }
            guard now >= start + .seconds(10) else { return }
            scans += 1
            (scanStart, nextScan) = (nil, now + .seconds(50))
        } else if nextScan <= now, turn == nil {
            scanStart = now
        }
    }
}
