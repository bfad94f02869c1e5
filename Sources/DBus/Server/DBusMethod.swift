/// A method of an exported interface.
public struct DBusMethod: Sendable {
    /// The code that answers calls of the method.
    ///
    /// Handlers start in the order in which the calls arrive. They run on the connection's thread and must not block it. A
    /// handler may suspend for any time; other handlers run meanwhile. The connection cancels its handlers when it ends.
    ///
    /// A thrown error is sent to the caller. A `DBusError` with code `remote` keeps its D-Bus name. One with code
    /// `unexpectedValue` becomes `InvalidArgs`. Every other error becomes `Failed`.
    public typealias Handler = @Sendable (DBusIncomingCall) async throws -> [DBusValue]

    public let name: String
    public let inputs: [DBusArgument]
    public let outputs: [DBusArgument]
    let handler: Handler

    /// Creates a method. The connection refuses a call whose arguments do not match `inputs`, with `InvalidArgs`.
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
