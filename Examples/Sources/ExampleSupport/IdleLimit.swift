public import BlueZ

/// Limits the time in which a central sends no request. Many adapters do not advertise during a connection, so an idle central keeps all
/// other centrals away.
public struct IdleLimit {
    private let time: Duration
    private let isForFirstWrite: Bool
    private let end: @Sendable (PeripheralConnection) -> Void
    private var timers: [PeripheralConnection: Task<Void, Never>] = [:]

    /// - Parameters:
    ///   - isForFirstWrite: whether to limit only the time to the first write. Otherwise each request starts the time again.
    ///   - end: is called for a connection whose time is over.
    public init(
        _ time: Duration, isForFirstWrite: Bool = false, end: @escaping @Sendable (PeripheralConnection) -> Void
    ) {
        self.time = time
        self.isForFirstWrite = isForFirstWrite
        self.end = end
    }

    /// Call this method for each event. A link that a program on this machine has opened has no limit before its first request.
    public mutating func record(_ event: PeripheralEvent) {
        switch event {
        case .connected(let connection): if connection.opener == .central { restart(connection) }
        case .disconnected(let connection): stop(connection)
        case .write(let request) where isForFirstWrite: stop(request.connection)
        case .write(let request): restart(request.connection)
        case .read(let request): if !isForFirstWrite { restart(request.connection) }
        case .subscribed: break
        }
    }

    private mutating func restart(_ connection: PeripheralConnection) {
        stop(connection)
        timers[connection] = Task { [time, end] in
            if (try? await Task.sleep(for: time)) != nil { end(connection) }
        }
    }

    private mutating func stop(_ connection: PeripheralConnection) { timers.removeValue(forKey: connection)?.cancel() }
}
