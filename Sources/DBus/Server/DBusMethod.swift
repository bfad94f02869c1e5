/// A method of an exported interface.
public struct DBusMethod: Sendable {
    /// Handlers are started in the order in which the calls came, on the connection's thread, where they must not block: they
    /// may suspend and answer as late as they like, and others run meanwhile. What is thrown is the answer as well: a
    /// `DBusError` that is `remote` under its own name, one that is `unexpectedValue` as `InvalidArgs`, anything else as
    /// `Failed`. When the connection ends they are cancelled.
    public typealias Handler = @Sendable (DBusIncomingCall) async throws -> [DBusValue]

    public let name: String
    public let inputs: [DBusArgument]
    public let outputs: [DBusArgument]
    let handler: Handler

    /// A call with other arguments than `inputs` is refused with `InvalidArgs`.
    public init(
        _ name: String, takes inputs: [DBusArgument] = [], returns outputs: [DBusArgument] = [],
        _ handler: @escaping Handler
    ) {
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.handler = handler
    }
}
