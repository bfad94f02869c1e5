package import DBus

/// The state machine of a connection, as a value. It gets events and returns actions.
///
/// With each event it gets the tree of bluetoothd's objects, its only source for their state. Therefore the order of
/// signals and replies does not matter. `ConnectionMachine+Phases.swift` implements its phases.
package struct ConnectionMachine: Sendable {
    package enum Phase: Sendable, Equatable {
        case idle
        /// Waits for bluetoothd, for the adapter, or for the adapter's power.
        case waiting(until: Duration)
        /// Scans for the device. `decision`: the time when the scan ends if no second device matches; nil: no device matches yet.
        case scanning(until: Duration, decision: Duration?)
        /// The device is known. The caller has not yet approved it.
        case admitting
        /// Removes the previous state: a link, or bluetoothd's cached data of the device.
        case clearing(Call, until: Duration)
        /// Waits for other connections of this program over the same adapter.
        case queueing(until: Duration?)
        case connecting(until: Duration)
        /// `until`: the deadline of the connection if part of its time has passed. Nil: the connection gets the full time.
        case reconnecting(at: Duration, until: Duration?)
        case discovering(until: Duration, wasConnected: Bool)
        case refreshing(until: Duration)
        case ready
        case failed(BlueZError)
    }

    package enum Call: Sendable, Equatable {
        /// Scans until `stopScan`.
        case scan(adapter: DBusObjectPath)
        /// Asks the caller to approve this device.
        case admit(DBusObjectPath)
        /// Waits for this adapter's turn to connect. No scan runs until `yieldTurn`.
        case takeTurn(adapter: DBusObjectPath)
        case connect(DBusObjectPath)
        case disconnect(DBusObjectPath)
        /// Removes the device from bluetoothd, which also ends its link.
        case removeDevice(DBusObjectPath, adapter: DBusObjectPath)
        /// Reads all objects again.
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
        /// Performs a call. The event `finished` or `failed` reports its result.
        case call(Call)
        case stopScan
        case yieldTurn
        /// Ends a link or an attempt that is no longer useful. No event follows.
        case releaseLink(DBusObjectPath)
        /// Another program's link to the device has ended. This program must end the next link.
        case own(DBusObjectPath)
        case ready(DBusObjectPath)
        /// Fails the attempt. This is the last action.
        case fail(BlueZError)
    }

    /// The time for which a candidate must remain the only one, if the target can match several devices.
    package static let decisionTime = Duration.milliseconds(1500)
    /// The wait between the end of a link and the next attempt. bluetoothd answers `Disconnect` before the link is down. An
    /// attempt during that time fails in one of three ways, the slowest after 30 s (5.66: with this wait, 0 of 16 attempts
    /// failed).
    package static let settleTime = Duration.milliseconds(500)
    /// The maximum number of new attempts after a link is lost before it is ready, or after bluetoothd has removed the device's object.
    package static let repetitions = 2

    let request: ConnectionRequest
    package internal(set) var phase = Phase.idle
    var adapter: DBusObjectPath?
    var device: DBusObjectPath?
    var generation = 0
    var repetitionsLeft = Self.repetitions
    var hasRefreshedCache = false
    /// The services that the device advertised before the connection. `hadServices`: whether bluetoothd knew services
    /// of the device at that time.
    var advertised: Set<BluetoothUUID> = []
    var hadServices = false
    /// Whether another program has opened the link to the device. Then this program must not end the link.
    package internal(set) var isShared = false
    /// The number of links to the device that had ended before the current link began.
    var endedLinks = 0

    var now = Duration.zero
    var actions: [Action] = []

    package init(_ request: ConnectionRequest) { self.request = request }

    /// The latest time of the next call.
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

    /// Processes an event and returns the actions in order. `now` is the time since the start and never decreases.
    package mutating func handle(_ event: Event, _ tree: BlueZObjectTree, at now: Duration) -> [Action] {
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

    private mutating func proceed(_ event: Event, _ tree: BlueZObjectTree) {
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

    /// Handles the end of another program's link before this attempt is ready. `Connect` then creates a link that this
    /// program must end.
    private mutating func stopSharing(_ tree: BlueZObjectTree) {
        guard isShared, phase != .ready, let device, !tree.isConnected(device, since: endedLinks) else { return }
        isShared = false
        actions.append(.own(device))
    }

    /// Ends the attempt and everything that it has started.
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
