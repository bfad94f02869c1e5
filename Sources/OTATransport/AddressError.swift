/// Why a text is not the address of a device.
public struct AddressError: Error, Sendable, Equatable {
    /// For people: what is wrong, without a full stop.
    public var context: String
    /// What to type instead.
    public var hint: String

    public init(_ context: String, hint: String) {
        self.context = context
        self.hint = hint
    }
}
