import Glibc
import OTAFleet

/// The wall clock of this machine.
enum WallClock {
    /// 2026-01-01T00:00:00Z. A machine without a clock battery starts with an earlier time.
    private static let earliest: Int64 = 1_767_225_600

    /// Returns the time; nil if the clock is not set.
    @Sendable static func now() -> Timestamp? {
        var time = timespec()
        guard clock_gettime(CLOCK_REALTIME, &time) == 0, Int64(time.tv_sec) >= earliest else { return nil }
        return Timestamp(seconds: Int64(time.tv_sec))
    }
}
