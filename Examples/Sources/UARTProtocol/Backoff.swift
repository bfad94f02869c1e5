/// The waits between the attempts to connect again: 0.5, 1, 2, 4, 8 and 8 s. Then the device counts as lost.
public struct Backoff: Sendable {
    public static let attempts = 6
    private static let longest = Duration.seconds(8)

    private var failures = 0

    public init() {}

    /// Returns the wait before the next attempt. Nil: no attempt is left.
    public mutating func next() -> Duration? {
        guard failures < Self.attempts else { return nil }
        failures += 1
        return min(Self.longest, .milliseconds(500 << (failures - 1)))
    }

    /// Starts with the shortest wait again. Call this method after a successful connection.
    public mutating func reset() { failures = 0 }
}
