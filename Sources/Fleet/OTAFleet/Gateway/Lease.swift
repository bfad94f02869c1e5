/// A time on the monotonic clock of this machine, and the wall clock if it is known.
public struct Moment: Sendable, Hashable {
    /// The time since a fixed point in the past, on a clock that also runs while the computer is suspended.
    public let now: Duration
    /// The time of the wall clock; nil if this clock is not set. It is used only for reports, and for the creation and the expiry of
    /// rollouts.
    public let wall: Timestamp?

    public init(_ now: Duration, wall: Timestamp? = nil) {
        self.now = now
        self.wall = wall
    }
}

/// The lease of a device, as its holder sees it.
///
/// The clocks of two machines are never compared. The holder writes the record every 10 s (a beat), and each beat gives the record a new
/// revision. The holder stops its push 20 s after it has **sent** the last beat that the store acknowledged. Another gateway takes over
/// only after it has seen the same revision for 45 s (``LeaseWatch``).
///
/// Another gateway can see the revision of a beat only after the holder has sent this beat. So the holder stops at least 25 s before the
/// takeover. Exception: a push whose device is on trial is not stopped.
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

    /// The time of the next beat: 10 s after the last beat was sent.
    public var nextBeat: Duration { sent + .seconds(10) }

    /// The time at which the holder must stop if no further beat is acknowledged: 20 s after the last acknowledged beat was sent.
    public var stopTime: Duration { acknowledged + .seconds(20) }
}

/// The newest revision of a record that this process has seen, and the time at which the process first saw it. This time is the start of
/// the 45 s before a takeover, and of the pause before the next attempt.
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

    /// Returns how long the revision has been unchanged.
    public func age(at now: Duration) -> Duration { now - since }

    /// If a revision is unchanged for this time, no push of a holder is under way any more, except on trial.
    public static let takeoverAge = Duration.seconds(45)

    /// The time from which the holder counts as gone: 45 s after the revision was first seen.
    public var takeoverTime: Duration { since + Self.takeoverAge }

    /// Returns the time that is `seconds` after the revision was first seen. The pause before the next attempt is measured in this way.
    func time(after seconds: Int) -> Duration { since + .seconds(seconds) }
}

/// The waiting time of a gateway before it takes the lease of a device.
///
/// If several gateways hear a device, the gateway with the strongest signal waits for the shortest time, and usually gets the lease. The
/// waiting time also has a random part, for gateways that receive the device with the same signal strength.
public enum Contention {
    /// Returns the waiting time: 50 ms for each decibel below −40 dBm, at most 4.5 s (90 decibels), and a random part of at most 50 ms.
    ///
    /// - Parameters:
    ///   - rssi: the signal strength in dBm; nil if the transport has no radio. The waiting time then has only the random part.
    ///   - jitter: a random number, 0 to 1.
    public static func delay(rssi: Int?, jitter: Double) -> Duration {
        let decibels = Double(min(max(-40 - (rssi ?? -40), 0), 90))
        return .milliseconds(Int(50 * (decibels + min(max(jitter, 0), 1))))
    }
}
