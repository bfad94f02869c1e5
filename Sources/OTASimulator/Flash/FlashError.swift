/// Why an operation of the virtual flash failed.
public enum FlashError: Error, Sendable, Equatable {
    /// The power went, before or in the middle of it.
    case noPower
    /// It failed with the power on: a `FlashFault`.
    case failed
    /// It reaches out of the flash. A violation.
    case outside
    /// It is not whole pages, or not whole write units. A violation.
    case unaligned
    /// A byte that was not erased was programmed: its bits can only be cleared, so it is spoilt now. A violation.
    case notErased
    /// The file behind the flash was not written; the system's error number.
    case notStored(errno: Int32)
}
