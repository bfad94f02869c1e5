/// An operation that fails, or succeeds wrongly, with the power on.
public struct FlashFault: Sendable, Hashable {
    public enum Kind: Sendable, CaseIterable {
        /// The operation leaves no trace and fails.
        case withoutTrace
        /// Half of the bytes are written, or garbage is left in half of the page; the operation fails.
        case halfway
        /// The operation is done, and reported as failed.
        case afterwards
        /// One bit is wrong, or garbage is left in half of the page; the operation is reported as done.
        case silently
    }
    /// Which erase or program, counted from 1 over the life of the `VirtualFlash`.
    public var operation: Int
    public var kind: Kind

    public init(operation: Int, kind: Kind) {
        self.operation = operation
        self.kind = kind
    }
}
