package import DBus

/// The state machine of one connection to a device. It is a value that performs no I/O: `handle` takes an event and returns
/// actions for `BlueZClient`.
///
/// `handle` also takes the tree of bluetoothd's objects. The machine reads the state of the objects only from this tree.
/// Therefore the order in which signals and replies arrive does not matter. `ConnectionMachine+Phases.swift` implements the
/// phases.
package struct ConnectionMachine: Sendable {
    package enum Phase: Sendable, Equatable {
        case idle
        /// Waits until bluetoothd runs and the adapter is powered.
        case waiting(until: Duration)
        /// Scans for the device. `decision` is nil until a device matches. Then `decision` is the time at which the machine counts
        /// the matching devices. If only one device matches, the machine connects to this device. If several devices match, the
        /// attempt fails.
        case scanning(until: Duration, decision: Duration?)
        /// Waits until `ConnectionRequest.admits` has accepted or refused the found device.
        case admitting
        /// Waits for the result of a call that ends the device's earlier link, or that removes the device from bluetoothd.
        case clearing(Call, until: Duration)
        /// Waits for the turn to connect (`AdapterRadio.takeTurn`). This phase has no deadline. `until` is the deadline of the next
        /// phase, `connecting`. If `until` is nil, the phase `connecting` gets the full time limit. After a temporary error of
        /// `Connect`, `until` is not nil, because the new attempt keeps the deadline of the failed attempt.
        case queueing(until: Duration?)
        case connecting(until: Duration)
        /// Waits until the time `at`, and then connects again. `until` has the same meaning as in `queueing`.
        case reconnecting(at: Duration, until: Duration?)
        /// Waits until bluetoothd has resolved the services. `wasConnected` is true if bluetoothd has reported the device as
        /// connected during this phase.
        case discovering(until: Duration, wasConnected: Bool)
        /// Waits until bluetoothd has listed all its objects again.
        case refreshing(until: Duration)
        case ready
        case failed(BlueZError)
    }

    package enum Call: Sendable, Equatable {
        /// Scans until the action `stopScan`.
        case scan(adapter: DBusObjectPath)
        /// Calls `ConnectionRequest.admits` with this device.
        case admit(DBusObjectPath)
        /// Waits for the turn: the exclusive permission in this program to connect over this adapter. The scans of this program
        /// pause until the action `yieldTurn`.
        case takeTurn(adapter: DBusObjectPath)
        case connect(DBusObjectPath)
        case disconnect(DBusObjectPath)
        /// Removes the device from bluetoothd. The removal also ends the device's link, and deletes
        /// the bond and the cached attributes.
        case removeDevice(DBusObjectPath, adapter: DBusObjectPath)
        /// Reads all objects of bluetoothd again.
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
        /// Starts a call. The event `finished` or `failed` reports the result of the call.
        case call(Call)
        case stopScan
        case yieldTurn
        /// Ends the device's link, or the attempt to connect to the device. No event reports the result.
        case releaseLink(DBusObjectPath)
        /// Record that this program owns the device's next link, and so must end that link later. The link of another program has ended,
        /// so this program opens a new link.
        case own(DBusObjectPath)
        case ready(DBusObjectPath)
        /// Reports the error that ended the attempt, or that ended the link after `ready`. No action follows.
        case fail(BlueZError)
    }

    /// The time from the first matching device to the decision, for a target that can match several devices. If a second matching
    /// device appears during this time, the attempt fails with `ambiguousDevice`.
    package static let decisionTime = Duration.milliseconds(1500)
    /// The wait before the next attempt, after a link has ended or an attempt has failed. bluetoothd replies to `Disconnect` before
    /// the link is down. An immediate new attempt can fail, and bluetoothd may report this failure only after 30 s. With this wait,
    /// 0 of 16 attempts failed (BlueZ 5.66).
    package static let settleTime = Duration.milliseconds(500)
    /// The maximum number of new attempts after two kinds of failures: the link has ended before it was ready, or bluetoothd has
    /// removed the device's object. After other failures, only the time limit of the phase limits the number of new attempts.
    package static let repetitions = 2

    let request: ConnectionRequest
    package internal(set) var phase = Phase.idle
    var adapter: DBusObjectPath?
    var device: DBusObjectPath?
    var generation = 0
    var repetitionsLeft = Self.repetitions
    var hasRefreshedCache = false
    /// The UUIDs of the services that bluetoothd reported for the device before the connection, such as the advertised services.
    var advertised: Set<BluetoothUUID> = []
    /// Whether bluetoothd knew services of the device before the connection.
    var hadServices = false
    /// Whether another program has opened the link to the device. If so, this program must not end the link.
    package internal(set) var isShared = false
    /// The value of `BlueZObjectTree.endedLinks(of:)` before the end of the current link. If the tree has a higher value, the
    /// current link has ended.
    var endedLinks = 0

    var now = Duration.zero
    var actions: [Action] = []

    package init(_ request: ConnectionRequest) { self.request = request }

    /// The time at which the caller must call `handle` with `deadlinePassed`; nil if the current phase has no deadline.
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

    /// Processes an event and returns the actions in order. `now` is the time since the start of the attempt, and never
    /// decreases.
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

    /// Clears `isShared` if the shared link has ended before this attempt is ready. `Connect` then creates a new link, which
    /// this program must end.
    private mutating func stopSharing(_ tree: BlueZObjectTree) {
        guard isShared, phase != .ready, let device, !tree.isConnected(device, since: endedLinks) else { return }
        isShared = false
        actions.append(.own(device))
    }

    /// Fails the attempt with this error. Also ends the scan, the turn or the link of the current phase.
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
