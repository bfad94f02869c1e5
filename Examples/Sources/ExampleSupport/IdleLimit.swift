public import BlueZ

/// Limits the time in which a central sends no request. Many adapters do not advertise during a connection, so an idle central keeps all
/// other centrals away.
public struct IdleLimit<Link: Hashable & Sendable> {
    private let time: Duration
    private let isForFirstWrite: Bool
    private let end: @Sendable (Link) -> Void
    private var timers: [Link: Task<Void, Never>] = [:]
    /// The links that may have a limit. A link that a program on this machine has opened has no limit before its first request.
    private var links: Set<Link> = []

    /// - Parameters:
    ///   - isForFirstWrite: whether to limit only the time to the first write. Otherwise each request starts the time again.
    ///   - end: is called for a link whose time is over.
    public init(_ time: Duration, isForFirstWrite: Bool = false, end: @escaping @Sendable (Link) -> Void) {
        self.time = time
        self.isForFirstWrite = isForFirstWrite
        self.end = end
    }

    /// The links whose time runs or is over.
    public var limited: Set<Link> { Set(timers.keys) }

    public mutating func connected(_ link: Link, openedBy opener: LinkOpener) {
        // In a container, the kernel does not report the opener.
        if opener != .host { restart(link) }
    }

    public mutating func requested(_ link: Link, isWrite: Bool) {
        if !isForFirstWrite {
            restart(link)
        } else if isWrite {
            stop(link)
            links.insert(link)
        }
    }

    /// A program of the central has ended, but the link remains. The next program has the same time. A time that runs is not extended.
    public mutating func unsubscribed(_ link: Link) {
        if links.contains(link), timers[link] == nil { restart(link) }
    }

    public mutating func disconnected(_ link: Link) {
        stop(link)
        links.remove(link)
    }

    private mutating func restart(_ link: Link) {
        stop(link)
        links.insert(link)
        timers[link] = Task { [time, end] in
            if (try? await Task.sleep(for: time)) != nil { end(link) }
        }
    }

    private mutating func stop(_ link: Link) { timers.removeValue(forKey: link)?.cancel() }
}

extension IdleLimit<PeripheralConnection> {
    /// Call this method for each event.
    public mutating func record(_ event: PeripheralEvent) {
        switch event {
        case .connected(let connection): connected(connection, openedBy: connection.opener)
        case .disconnected(let connection): disconnected(connection)
        case .write(let request): requested(request.connection, isWrite: true)
        case .read(let request): requested(request.connection, isWrite: false)
        case .subscribed(let connection, _, on: false): unsubscribed(connection)
        case .subscribed: break
        }
    }
}
