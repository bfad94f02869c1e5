extension Duration {
    /// The duration in whole nanoseconds, rounded towards zero. It is exact for all durations in the simulator. The range is 292 years.
    var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds &* 1_000_000_000 &+ attoseconds / 1_000_000_000
    }

    /// The duration in whole milliseconds, rounded towards zero.
    var milliseconds: Int64 { nanoseconds / 1_000_000 }
}
