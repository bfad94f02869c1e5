internal import FoundationEssentials

/// A time of the wall clock, in whole seconds. Its text is ISO 8601 in UTC, such as `2026-11-22T18:00:00Z`.
///
/// The wall clock is used only for the creation and the expiry of a rollout, and for reports. Leases use the monotonic clock of one
/// machine.
public struct Timestamp: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// The last second of the year 9999.
    static let latest: Int64 = 253_402_300_799

    /// The seconds since 1970-01-01T00:00:00Z, without leap seconds: 0 to 253402300799.
    public let seconds: Int64

    /// Returns nil if the time is before 1970 or after the year 9999.
    public init?(seconds: Int64) {
        guard (0...Self.latest).contains(seconds) else { return nil }
        self.seconds = seconds
    }

    /// Returns nil if `text` is not in the form `2026-11-22T18:00:00Z`.
    public init?(_ text: String) {
        // The parser of Foundation is lenient, so the text must be equal to the text of the parsed time.
        guard text.utf8.count == 20, let date = try? Date(text, strategy: .iso8601) else { return nil }
        let seconds = date.timeIntervalSince1970
        guard (0...Double(Self.latest)).contains(seconds), let time = Timestamp(seconds: Int64(seconds)),
            time.description == text
        else { return nil }
        self = time
    }

    public var description: String { Date(timeIntervalSince1970: Double(seconds)).formatted(.iso8601) }

    public static func < (left: Timestamp, right: Timestamp) -> Bool { left.seconds < right.seconds }

    /// Returns the time `seconds` later. If this time is outside the supported range, the result is the nearest time in the range.
    public func advanced(by seconds: Int64) -> Timestamp {
        let (sum, overflow) = self.seconds.addingReportingOverflow(seconds)
        let bounded = overflow ? (seconds < 0 ? 0 : Self.latest) : min(max(sum, 0), Self.latest)
        return Timestamp(bounded: bounded)
    }

    private init(bounded seconds: Int64) { self.seconds = seconds }
}
