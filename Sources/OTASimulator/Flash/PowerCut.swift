/// A loss of power at one of the operations that change the flash.
public struct PowerCut: Sendable, Hashable {
    public enum Moment: Sendable, CaseIterable {
        /// The operation leaves no trace.
        case before
        /// Half of the bytes are written; half of the page is erased, and garbage is left in the other half.
        case during
        /// The operation is done, but nobody hears of it.
        case after
    }
    /// Which erase or program, counted from 1 over the life of the `VirtualFlash`.
    public var operation: Int
    public var moment: Moment

    public init(operation: Int, moment: Moment) {
        self.operation = operation
        self.moment = moment
    }
}
