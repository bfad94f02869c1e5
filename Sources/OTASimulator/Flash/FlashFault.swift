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
