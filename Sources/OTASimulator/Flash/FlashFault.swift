/// A fault of one flash operation with the power on: it fails, or it stores wrong data.
public struct FlashFault: Sendable, Hashable {
    public enum Kind: Sendable, CaseIterable {
        /// The operation changes nothing and reports an error.
        case withoutTrace
        /// A program writes half of the bytes; an erase leaves random bytes in half of the page. The operation reports an error.
        case halfway
        /// The operation completes and reports an error.
        case afterwards
        /// A program stores one wrong bit; an erase leaves random bytes in half of the page. The operation reports success.
        case silently
    }
    /// The number of the erase or program, counted from 1 over the life of the `VirtualFlash`.
    public var operation: Int
    public var kind: Kind

    public init(operation: Int, kind: Kind) {
        self.operation = operation
        self.kind = kind
    }
}

/// A loss of power at one erase or program of the flash.
public struct PowerCut: Sendable, Hashable {
    public enum Moment: Sendable, CaseIterable {
        /// The power fails before the operation, which changes nothing.
        case before
        /// The power fails during the operation. A program writes half of the bytes. An erase erases half of the page and leaves random
        /// bytes in the other half.
        case during
        /// The power fails after the operation, which completes but reports nothing.
        case after
    }
    /// The number of the erase or program, counted from 1 over the life of the `VirtualFlash`.
    public var operation: Int
    public var moment: Moment

    public init(operation: Int, moment: Moment) {
        self.operation = operation
        self.moment = moment
    }
}

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
