/// The waits between the attempts to connect again: 0.5, 1, 2, 4, 8 and 8 s. Then the device counts as lost.
public struct Backoff: Sendable {
    public static let attempts = 6
    private static let longest = Duration.seconds(8)

    private var failures = 0
    /// The number of received bytes of the running transfer.
    private var received = 0

    public init() {}

    /// Returns the wait before the next attempt. Nil: no attempt is left.
    public mutating func next() -> Duration? {
        guard failures < Self.attempts else { return nil }
        failures += 1
        return min(Self.longest, .milliseconds(500 << (failures - 1)))
    }

    /// Starts with the shortest wait again if the event is a success: more bytes of the image, or the end of a transfer. A greeting is not
    /// enough. Otherwise a peripheral that ends each link after the greeting would have an unlimited number of attempts.
    public mutating func record(_ event: CentralSession.Event) {
        switch event {
        case .progress(let received, _) where received > self.received: (failures, self.received) = (0, received)
        case .image, .imageFailed: (failures, received) = (0, 0)
        default: break
        }
    }

    /// Starts with the shortest wait again if a link without a running transfer has lasted for the longest wait. So an idle conversation
    /// continues after each cut, and the attempts are never frequent.
    ///
    /// - Parameter time: the time since the greeting.
    public mutating func endLink(after time: Duration, isTransferring: Bool) {
        if time >= Self.longest, !isTransferring { failures = 0 }
    }
}
