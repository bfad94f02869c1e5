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
