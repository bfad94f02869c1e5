extension DBusConnection {
    /// Takes a well-known name, such as `org.example.Service`. Throws `nameTaken` when somebody else has it and does not give
    /// it away, and what `call` throws.
    ///
    /// - Parameters:
    ///   - isReplaceable: whether it is given to another one that asks for it with `replacing`.
    ///   - replacing: take it from an owner that lets it go.
    public func requestName(
        _ name: String, isReplaceable: Bool = false, replacing: Bool = false
    ) async throws(DBusError) {
        try Names.check(bus: name)
        // Specification, "RequestName". Nobody waits in a queue, which would look like success.
        let flags: UInt32 = (isReplaceable ? 1 : 0) | (replacing ? 2 : 0) | 4
        let answer = try await request(.bus("RequestName", [.string(name), .uint32(flags)])).require(0, \.uint32)
        // 1: it is ours; 4: it was before.
        guard answer == 1 || answer == 4 else {
            throw DBusError(.nameTaken, "somebody else owns \(name)")
        }
    }

    /// Gives a name back; harmless when it was not ours. Throws what `call` throws.
    public func releaseName(_ name: String) async throws(DBusError) {
        try Names.check(bus: name)
        try await request(.bus("ReleaseName", [.string(name)]))
    }
}
