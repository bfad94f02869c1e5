/// A time on the monotonic clock of this machine, and the wall clock if it is known.
public struct Moment: Sendable, Hashable {
    /// The time since any fixed point, on a clock that also counts the time in which the machine sleeps.
    public let now: Duration
    /// The time of the wall clock. It is used only for reports and for the expiry of rollouts.
    public let wall: Timestamp?

    public init(_ now: Duration, wall: Timestamp? = nil) {
        self.now = now
        self.wall = wall
    }
}

/// The lease of a device, as its holder sees it.
///
/// No clock of two machines is compared. The holder writes the record every 10 s (a beat). It stops its push 20 s after it has **sent** the
/// last beat that the store acknowledged. Another gateway takes over only after it has seen the same revision for 45 s (``LeaseWatch``).
/// The revision that it sees was sent before, so the holder stops at least 25 s earlier.
public struct Lease: Sendable, Hashable {
    private var sent: Duration
    private var acknowledged: Duration

    /// Creates a lease whose first write was sent at `sent` and is acknowledged.
    public init(sent: Duration) {
        self.sent = sent
        acknowledged = sent
    }

    /// Records that a beat is sent.
    public mutating func send(at now: Duration) { sent = now }

    /// Records that the store acknowledged the beat that was sent at `sent`.
    public mutating func acknowledge(sent: Duration) { acknowledged = max(acknowledged, sent) }

    /// The time of the next beat: 10 s after the last one.
    public var nextBeat: Duration { sent + .seconds(10) }

    /// The time at which the holder must stop if no further beat is acknowledged: 20 s after the last acknowledged beat was sent.
    public var stopTime: Duration { acknowledged + .seconds(20) }
}

/// The revision of a record as another process sees it, and since when.
public struct LeaseWatch: Sendable, Hashable {
    public private(set) var revision: UInt64
    private var since: Duration

    public init(revision: UInt64, at now: Duration) {
        self.revision = revision
        since = now
    }

    /// Records the current revision.
    public mutating func see(revision: UInt64, at now: Duration) {
        guard revision != self.revision else { return }
        self = LeaseWatch(revision: revision, at: now)
    }

    /// The time since the revision is unchanged.
    public func age(at now: Duration) -> Duration { now - since }

    /// The time from which the holder counts as gone: 45 s after the revision was first seen.
    public var takeoverTime: Duration { since + .seconds(45) }

    /// The time `seconds` after the revision was first seen. A pause before the next attempt is measured so.
    func time(after seconds: Int) -> Duration { since + .seconds(seconds) }
}

/// The random part of the start of a push. If several gateways hear a device, the gateway with the strongest signal starts first.
public enum Contention {
    /// Returns how long a gateway waits before it takes the lease: 50 ms for each dB below −40 dBm, and up to 50 ms more.
    ///
    /// - Parameters:
    ///   - rssi: the signal strength in dBm; nil if the transport has no radio.
    ///   - jitter: a random number, 0 to 1.
    public static func delay(rssi: Int?, jitter: Double) -> Duration {
        let decibels = Double(min(max(-40 - (rssi ?? -40), 0), 90))
        return .milliseconds(Int(50 * (decibels + min(max(jitter, 0), 1))))
    }
}
