extension Duration {
    /// Whole nanoseconds, rounded towards zero: exact for all that is modelled here, and enough for 292 years.
    var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds &* 1_000_000_000 &+ attoseconds / 1_000_000_000
    }

    /// Whole milliseconds, rounded towards zero.
    var milliseconds: Int64 { nanoseconds / 1_000_000 }
}
