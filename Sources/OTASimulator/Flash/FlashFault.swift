/// A fault in one flash operation while the power is on. The operation fails or stores wrong data.
public struct FlashFault: Sendable, Hashable {
    public enum Kind: Sendable, CaseIterable {
        /// The operation changes nothing and reports an error.
        case withoutTrace
        /// The operation reports an error after half of its work. A program writes the first half of the bytes. An erase leaves random
        /// bytes in the second half of the page.
        case halfway
        /// The operation completes, but it reports an error.
        case afterwards
        /// The operation reports success but stores wrong data. A program stores one wrong bit. An erase leaves random bytes in the second
        /// half of the page.
        case silently
    }
    /// The number of the erase or program. Number 1 is the first operation of the `VirtualFlash`. In a `FaultPlan`, number 1 is the first
    /// operation after the creation of the transport.
    public var operation: Int
    public var kind: Kind

    public init(operation: Int, kind: Kind) {
        self.operation = operation
        self.kind = kind
    }
}

/// A loss of power at one erase or program operation of the flash.
public struct PowerCut: Sendable, Hashable {
    public enum Moment: Sendable, CaseIterable {
        /// The power fails before the operation. The flash does not change.
        case before
        /// The power fails during the operation. A program writes only the first half of the bytes. An erase leaves random bytes in the
        /// second half of the page.
        case during
        /// The power fails after the operation is complete. The operation still throws `noPower`.
        case after
    }
    /// The number of the erase or program. Number 1 is the first operation of the `VirtualFlash`. In a `FaultPlan`, number 1 is the first
    /// operation after the creation of the transport.
    public var operation: Int
    public var moment: Moment

    public init(operation: Int, moment: Moment) {
        self.operation = operation
        self.moment = moment
    }
}

/// An error of a flash operation. A violation is an operation that real firmware must never request.
public enum FlashError: Error, Sendable, Equatable {
    /// The flash has no power, or the power failed before, during or just after the operation.
    case noPower
    /// The operation failed while the power was on, because of a `FlashFault` or because a written boot record does not read back
    /// correctly.
    case failed
    /// The range is outside the flash. This is a violation.
    case outside
    /// The offset or the length is not a multiple of the page size (erase) or of the write unit (program). This is a violation.
    case unaligned
    /// A program operation wrote to a byte that was not erased. The operation can only clear bits, so the byte may have a wrong value.
    /// This is a violation.
    case notErased
    /// A write to the flash's file failed. `errno` is the system's error number.
    case notStored(errno: Int32)
}
