/// The reason why a text is not the address of a device.
public struct AddressError: Error, Sendable, Equatable {
    /// The description for people, without a full stop.
    public var context: String
    /// A hint with a correct address or command.
    public var hint: String

    public init(_ context: String, hint: String) {
        self.context = context
        self.hint = hint
    }
}
