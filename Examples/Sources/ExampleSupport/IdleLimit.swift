public import BlueZ

/// Limits the time in which a central sends no request. Many adapters do not advertise during a connection, so an idle central keeps all
/// other centrals away.
public struct IdleLimit {
    private let time: Duration
    private let end: @Sendable (PeripheralConnection) -> Void
    private var timers: [PeripheralConnection: Task<Void, Never>] = [:]

    /// - Parameter end: is called for a connection whose time is over.
    public init(_ time: Duration, end: @escaping @Sendable (PeripheralConnection) -> Void) {
        self.time = time
        self.end = end
    }

    /// Starts the time of a new connection. Has no effect if a program on this machine has opened the link.
    public mutating func begin(_ connection: PeripheralConnection) {
        if connection.opener == .central { restart(connection) }
    }

    /// Starts the time again.
    public mutating func restart(_ connection: PeripheralConnection) {
        timers[connection]?.cancel()
        timers[connection] = Task { [time, end] in
            if (try? await Task.sleep(for: time)) != nil { end(connection) }
        }
    }

    public mutating func stop(_ connection: PeripheralConnection) { timers.removeValue(forKey: connection)?.cancel() }
}
