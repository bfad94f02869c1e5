/// An error of an operation of the virtual flash.
public enum FlashError: Error, Sendable, Equatable {
    /// The power failed before or during the operation.
    case noPower
    /// A `FlashFault` made the operation fail with the power on.
    case failed
    /// The range is not within the flash. A violation.
    case outside
    /// The range is not a multiple of pages or write units. A violation.
    case unaligned
    /// A byte was programmed without being erased. A program can only clear bits, so the byte is now invalid. A violation.
    case notErased
    /// The flash's file could not be written, with the system's error number.
    case notStored(errno: Int32)
}
