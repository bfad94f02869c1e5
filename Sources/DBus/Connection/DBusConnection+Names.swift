extension DBusConnection {
    /// Requests a well-known name, such as `org.example.Service`. Throws `nameTaken` if another connection owns it and does
    /// not release it, and the errors of `call`.
    ///
    /// - Parameters:
    ///   - isReplaceable: whether another connection can take over the name with `replacing`.
    ///   - replacing: take the name over from an owner that permits it.
    public func requestName(
        _ name: String, isReplaceable: Bool = false, replacing: Bool = false
    ) async throws(DBusError) {
        try Names.check(bus: name)
        // Specification, "RequestName". Flag 4: do not wait in the queue, because a queued request would look like success.
        let flags: UInt32 = (isReplaceable ? 1 : 0) | (replacing ? 2 : 0) | 4
        let answer = try await request(.bus("RequestName", [.string(name), .uint32(flags)])).require(0, \.uint32)
        // 1: this connection is now the owner; 4: it already was.
        guard answer == 1 || answer == 4 else {
            throw DBusError(.nameTaken, "another connection owns \(name)")
        }
    }

    /// Releases a name. Does nothing if this connection does not own it. Throws the errors of `call`.
    public func releaseName(_ name: String) async throws(DBusError) {
        try Names.check(bus: name)
        try await request(.bus("ReleaseName", [.string(name)]))
    }
}
