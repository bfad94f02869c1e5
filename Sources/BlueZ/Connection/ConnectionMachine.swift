package import DBus

/// How a connection comes about and ends, as a value: it is told what happened and says what to do next.
///
/// It sees bluetoothd's objects only through the tree that it is handed with each event, so it does not matter in which order
/// signals and answers arrive. The files beside this one are the ways through its phases.
package struct ConnectionMachine: Sendable {
    package enum Phase: Sendable, Equatable {
        case idle
        /// For bluetoothd, the adapter, or its power.
        case waiting(until: Duration)
        /// `decision`: when one candidate has been alone for long enough.
        case scanning(until: Duration, decision: Duration?)
        /// The device is known, and whether it may be touched is not.
        case admitting
        /// Ending what was there before: a link, or bluetoothd's memory of the device.
        case clearing(Call, until: Duration)
        /// Other connections of ours over this adapter come first.
        case queueing(until: Duration?)
        case connecting(until: Duration)
        /// `until`: what is left of the time for connecting; nil: all of it.
        case reconnecting(at: Duration, until: Duration?)
        case discovering(until: Duration, wasConnected: Bool)
        case refreshing(until: Duration)
        case ready
        case failed(BlueZError)
    }

    package enum Call: Sendable, Equatable {
        /// Scans until `stopScan`.
        case scan(adapter: DBusObjectPath)
        /// Asks whether this is a device to go on with.
        case admit(DBusObjectPath)
        /// Waits for this adapter's turn to connect; no scan disturbs it until `yieldTurn`.
        case takeTurn(adapter: DBusObjectPath)
        case connect(DBusObjectPath)
        case disconnect(DBusObjectPath)
        /// Has bluetoothd forget the device, which also ends its link.
        case forget(DBusObjectPath, adapter: DBusObjectPath)
        /// Reads all objects anew.
        case refresh
    }

    package enum Event: Sendable, Equatable {
        case started
        case treeChanged
        case finished(Call)
        case failed(Call, BlueZError)
        case deadlinePassed
        case cancelled
    }

    package enum Action: Sendable, Equatable {
        /// Answered by `finished` or `failed`.
        case call(Call)
        case stopScan
        case yieldTurn
        /// Ends a link, or an attempt, that is of no more use. Not answered.
        case releaseLink(DBusObjectPath)
        /// Another program's link to it has ended: the one that comes is ours to end.
        case own(DBusObjectPath)
        case ready(DBusObjectPath)
        /// The last action.
        case fail(BlueZError)
    }

    /// How long a candidate must stay the only one where any of several could be meant.
    package static let decisionTime = Duration.milliseconds(1500)
    /// From the end of a link to the next attempt. bluetoothd answers `Disconnect` before the link is down, and an attempt that
    /// meets its end fails in one of three ways, the slowest of which takes 30 s (5.66: with this wait, none of 16).
    package static let settleTime = Duration.milliseconds(500)
    /// How many links that break before they are ready are made anew.
    package static let repetitions = 2

    let request: ConnectionRequest
    package internal(set) var phase = Phase.idle
    var adapter: DBusObjectPath?
    var device: DBusObjectPath?
    var generation = 0
    var repetitionsLeft = Self.repetitions
    var hasRefreshedCache = false
    /// What it advertised before it was connected, and whether bluetoothd knew services of it then.
    var advertised: Set<BluetoothUUID> = []
    var hadServices = false
    /// Whether somebody else had connected it. It is not ours to end, then.
    package internal(set) var isShared = false
    /// How many links to it had ended when the one that is of interest was there.
    var endedLinks = 0

    var now = Duration.zero
    var actions: [Action] = []

    package init(_ request: ConnectionRequest) { self.request = request }

    /// When it wants to be called at the latest.
    package var deadline: Duration? {
        switch phase {
        case .idle, .admitting, .queueing, .ready, .failed: nil
        case .waiting(let until), .clearing(_, let until), .connecting(let until), .discovering(let until, _),
            .refreshing(let until):
            until
        case .scanning(let until, let decision): decision.map { min($0, until) } ?? until
        case .reconnecting(let at, _): at
        }
    }

    /// Tells it what happened at `now`, the time since it was started, which never runs backwards. What to do, in order.
    package mutating func handle(_ event: Event, _ tree: ObjectTree, at now: Duration) -> [Action] {
        self.now = now
        actions = []
        switch (phase, event) {
        case (.failed, _): break
        case (_, .cancelled):
            stopSharing(tree)
            fail(BlueZError(.cancelled, "the task was cancelled"))
        case (.idle, _):
            phase = .waiting(until: now + request.limit)
            wait(tree)
        case (.waiting, _): wait(tree)
        default:
            if let loss = adapter.flatMap({ tree.loss(of: $0, since: generation) }) {
                fail(loss)
            } else {
                proceed(event, tree)
            }
        }
        return actions
    }

    private mutating func proceed(_ event: Event, _ tree: ObjectTree) {
        stopSharing(tree)
        switch phase {
        case .idle, .waiting, .failed: break
        case .scanning(let until, let decision): scan(event, tree, until, decision)
        case .admitting: admit(event, tree)
        case .clearing(let call, let until): clear(event, tree, call, until)
        case .queueing(let until): queue(event, until)
        case .connecting(let until): connect(event, tree, until)
        case .reconnecting(let at, let until): reconnect(tree, at, until)
        case .discovering(let until, let wasConnected): discover(event, tree, until, wasConnected)
        case .refreshing(let until): refresh(event, tree, until)
        case .ready: watch(tree)
        }
    }

    /// A link that another program had made, or that was just going down, ends before it is of use: `Connect` makes one that
    /// nobody else would end.
    private mutating func stopSharing(_ tree: ObjectTree) {
        guard isShared, phase != .ready, let device, !tree.isConnected(device, since: endedLinks) else { return }
        isShared = false
        actions.append(.own(device))
    }

    /// Ends the attempt, and what it has under way.
    mutating func fail(_ error: BlueZError) {
        switch phase {
        case .scanning: actions.append(.stopScan)
        case .queueing: actions.append(.yieldTurn)
        case .connecting:
            releaseLink()
            actions.append(.yieldTurn)
        case .discovering, .refreshing: releaseLink()
        case .idle, .waiting, .admitting, .clearing, .reconnecting, .ready, .failed: break
        }
        phase = .failed(error)
        actions.append(.fail(error))
    }

    private mutating func releaseLink() {
        if let device, !isShared { actions.append(.releaseLink(device)) }
    }
}
