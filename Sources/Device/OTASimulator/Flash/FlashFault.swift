/// An injected fault in one flash operation (a write or an erase), without a loss of power. The operation reports an error or stores wrong
/// data.
public struct FlashFault: Sendable, Hashable {
    public enum Kind: Sendable, CaseIterable {
        /// The operation changes nothing and reports an error.
        case withoutTrace
        /// The operation stops after half of its work and reports an error. A write stores the first half of the bytes. An erase leaves
        /// random bytes in the second half of the page.
        case halfway
        /// The operation completes, but reports an error.
        case afterwards
        /// The operation reports success but stores wrong data. A write stores one wrong bit. An erase leaves random bytes in the second
        /// half of the page.
        case silently
    }
    /// The number of the operation. The first write or erase has the number 1. A ``VirtualFlash`` counts from the creation of the flash. A
    /// ``FaultPlan`` counts from the creation of the transport. `SimulatedDevice.schedule` counts from the call.
    public var operation: Int
    public var kind: Kind

    public init(operation: Int, kind: Kind) {
        self.operation = operation
        self.kind = kind
    }
}

/// A loss of power at one flash operation (a write or an erase).
public struct PowerCut: Sendable, Hashable {
    public enum Moment: Sendable, CaseIterable {
        /// The power fails before the operation. The flash does not change.
        case before
        /// The power fails during the operation. A write stores only the first half of the bytes. An erase leaves random bytes in the
        /// second half of the page.
        case during
        /// The power fails after the operation is complete. The operation nevertheless throws `noPower`.
        case after
    }
    /// The number of the operation. The first write or erase has the number 1. A ``VirtualFlash`` counts from the creation of the flash. A
    /// ``FaultPlan`` counts from the creation of the transport. `SimulatedDevice.schedule` counts from the call.
    public var operation: Int
    public var moment: Moment

    public init(operation: Int, moment: Moment) {
        self.operation = operation
        self.moment = moment
    }
}

/// An error of a flash operation. Some errors are violations: correct firmware never requests such an operation.
public enum FlashError: Error, Sendable, Equatable {
    /// The flash has no power, or a `PowerCut` interrupted the operation.
    case noPower
    /// The operation failed while the flash had power. The cause is a `FlashFault`, or a boot record that the flash stored incorrectly.
    case failed
    /// The operation's range of bytes is not completely inside the flash. This error is a violation.
    case outside
    /// The offset or the length is not a multiple of the page size (for an erase) or of the write unit (for a write). This error is a
    /// violation.
    case unaligned
    /// A write changed a byte that was not erased. A write can only clear bits, so the byte may have a wrong value. This error is a
    /// violation.
    case notErased
    /// The operating system could not write to the flash's file. `errno` is the system's error number.
    case notStored(errno: Int32)
}
