/// Decides which connection attempt uses an adapter next (`AdapterRadio.takeTurn`). A value without a clock.
///
/// One attempt at a time has the turn. During a turn, no other device can connect, and all scans pause. So a device that does not answer
/// would keep the adapter from all other devices. A device counts as *unreachable* if its turns lasted for more than ``tolerance`` together
/// since its last connection. An unreachable device is never urgent, and gets a turn only after all other devices. If other devices wait or
/// scans run, the adapter also rests before this turn: ``restFactor`` times the duration of the last turn without a connection. So all
/// unreachable devices together get at most a third of the adapter's time.
package struct TurnQueue<Value> {
    private struct Waiting {
        let value: Value
        let ticket: Int
        let device: String
        let isUrgent: Bool
    }
    private struct Turn {
        let ticket: Int
        let device: String
        let since: Duration
    }
    /// The time of a device's turns since its last connection, and the time of the last change.
    private struct Waste {
        var duration = Duration.zero
        var changed = Duration.zero
    }

    /// A correct device that advertises seldom needs some seconds for a connection. A failed attempt of an earlier link takes about 1 s.
    package static var tolerance: Duration { .seconds(3) }
    package static var restFactor: Int { 2 }
    /// The queue discards the time of a device's turns this long after the last one.
    package static var memory: Duration { .seconds(600) }

    private var waiting: [Waiting] = []
    private var turn: Turn?
    private var waste: [String: Waste] = [:]
    private var restEnd = Duration.zero

    package init() {}

    /// True if an attempt has the turn.
    package var isTaken: Bool { turn != nil }

    /// Adds an attempt. Call ``next(at:isScanning:)`` afterwards.
    ///
    /// - Parameter isUrgent: true if the attempt gets the turn before attempts that are not urgent.
    package mutating func add(_ value: Value, ticket: Int, device: String, isUrgent: Bool) {
        waiting.append(Waiting(value: value, ticket: ticket, device: device, isUrgent: isUrgent))
    }

    /// Gives the turn to the next attempt. The urgent attempts come first. Attempts with the same urgency are in the order of their
    /// arrival. The attempts of unreachable devices come last.
    ///
    /// - Parameter isScanning: whether a scan runs or waits for the end of a turn.
    /// - Returns: the value of the attempt; nil if an attempt has the turn, or if no attempt may begin now.
    package mutating func next(at now: Duration, isScanning: Bool) -> Value? {
        guard turn == nil else { return nil }
        let reachable = waiting.indices.filter { !isUnreachable(waiting[$0].device) }
        var index = reachable.first { waiting[$0].isUrgent } ?? reachable.first
        if index == nil, !isScanning || now >= restEnd { index = waiting.indices.first }
        guard let index else { return nil }
        let next = waiting.remove(at: index)
        turn = Turn(ticket: next.ticket, device: next.device, since: now)
        return next.value
    }

    /// The time at which ``next(at:isScanning:)`` must be called again; nil if only a change of the queue or of the scans matters.
    package var deadline: Duration? { turn == nil && !waiting.isEmpty ? restEnd : nil }

    /// Removes the attempt with this ticket. Returns nil if the attempt does not wait.
    package mutating func remove(ticket: Int) -> Value? {
        waiting.firstIndex { $0.ticket == ticket }.map { waiting.remove(at: $0).value }
    }

    /// Ends a turn.
    ///
    /// - Parameter isConnected: whether the attempt has connected to the device.
    /// - Returns: false if the attempt with this ticket does not have the turn.
    package mutating func end(ticket: Int, isConnected: Bool, at now: Duration) -> Bool {
        guard let ended = turn, ended.ticket == ticket else { return false }
        turn = nil
        waste = waste.filter { now - $0.value.changed < Self.memory }
        if isConnected {
            waste[ended.device] = nil
        } else {
            let duration = now - ended.since
            waste[ended.device, default: Waste()].duration += duration
            waste[ended.device]?.changed = now
            restEnd = now + duration * Self.restFactor
        }
        return true
    }

    private func isUnreachable(_ device: String) -> Bool {
        (waste[device]?.duration ?? .zero) > Self.tolerance
    }
}
