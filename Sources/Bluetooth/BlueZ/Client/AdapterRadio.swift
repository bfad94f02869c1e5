import DBus
import Logging

/// Coordinates the scans and connection attempts of this program over one adapter. Several tasks may scan at the same time, but
/// only one task at a time may connect. All scans pause while a task connects.
///
/// bluetoothd and the controller cannot reliably scan and connect at the same time. During a connection attempt, a scan or a second
/// attempt fails with `InProgress`. All scans share one discovery, because bluetoothd allows only one discovery per bus connection.
actor AdapterRadio {
    nonisolated let executor: DBusExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    private let adapter: DBusObjectPath
    private let bus: DBusConnection
    private let logger: Logger
    private var scans: [Int: ScanFilter] = [:]
    /// The tasks that connect or wait for their turn. While a task has the turn, no scan runs.
    private var queue = TurnQueue<CheckedContinuation<Void, Never>>()
    /// The scans that wait for the end of the current turn, by ticket.
    private var waitingScans: [Int: CheckedContinuation<Void, Never>] = [:]
    private let start = ContinuousClock.now
    private var timer: Task<Void, Never>?
    private var lastTicket = 0
    /// The services that bluetoothd currently searches for. If the set is empty, bluetoothd searches for all devices. The value is nil
    /// if this program has no active discovery.
    private var discovery: Set<BluetoothUUID>?
    private var changes = ChangeQueue()

    init(_ adapter: DBusObjectPath, _ bus: DBusConnection, _ logger: Logger) {
        self.adapter = adapter
        self.bus = bus
        self.logger = logger
        executor = bus.executor
    }

    /// Returns a ticket: an unused number that identifies a scan or a task that connects.
    func newTicket() -> Int {
        lastTicket += 1
        return lastTicket
    }

    // MARK: - Scanning

    /// Starts a scan and returns when bluetoothd's discovery is active. Exception: if a task is connecting, this method returns at
    /// once, and the discovery starts later. At the end of the scan, call `endScan`, even if this method has thrown an error.
    ///
    /// - Parameter waitsForTurn: true to wait for the end of the current turn, so that the scan has its whole time.
    func startScan(_ ticket: Int, _ filter: ScanFilter, waitsForTurn: Bool = false) async throws(BlueZError) {
        scans[ticket] = filter
        if waitsForTurn, queue.isTaken, !Task.isCancelled {
            await withTaskCancellationHandler {
                _ = self
                await withCheckedContinuation { waitingScans[ticket] = $0 }
            } onCancel: {
                Task { await self.stopWaiting(ticket) }
            }
        }
        try await reconcile().get()
    }

    private func stopWaiting(_ ticket: Int) { waitingScans.removeValue(forKey: ticket)?.resume() }

    func endScan(_ ticket: Int) async {
        scans[ticket] = nil
        advance()
        if case .failure(let error) = await reconcile() {
            logger.debug("the discovery did not end in order", metadata: ["reason": "\(error)"])
        }
    }

    // MARK: - Connecting

    /// Waits for the turn: the exclusive permission in this program to connect over this adapter (``TurnQueue``). Then pauses all scans of
    /// this program. This method ignores the error if bluetoothd refuses to stop the discovery. If the task is cancelled during the wait,
    /// this method returns without the turn. Call `endTurn` after each call of this method, even if the task was cancelled.
    ///
    /// - Parameter isUrgent: true if this task gets the turn before the waiting tasks that are not urgent.
    func takeTurn(_ ticket: Int, for device: String, isUrgent: Bool = false) async {
        await withTaskCancellationHandler {
            _ = self
            await withCheckedContinuation {
                queue.add($0, ticket: ticket, device: device, isUrgent: isUrgent)
                advance()
            }
        } onCancel: {
            Task { await self.endTurn(ticket, isConnected: false) }
        }
        _ = await reconcile()
    }

    /// Ends the turn, or the wait for the turn.
    ///
    /// - Parameter isConnected: whether the task has connected to the device.
    func endTurn(_ ticket: Int, isConnected: Bool) async {
        if let waiting = queue.remove(ticket: ticket) {
            waiting.resume()
        } else if queue.end(ticket: ticket, isConnected: isConnected, at: now) {
            for scan in waitingScans.values { scan.resume() }
            waitingScans = [:]
            advance()
            _ = await reconcile()
        }
    }

    private var now: Duration { start.duration(to: .now) }

    /// Gives the turn to the next task, or starts a timer for it.
    private func advance() {
        queue.next(at: now, isScanning: !scans.isEmpty)?.resume()
        timer?.cancel()
        timer = queue.deadline.map { [start] deadline in
            Task {
                guard (try? await Task.sleep(until: start + deadline, clock: .continuous)) != nil else { return }
                advance()
            }
        }
    }

    // MARK: - Discovery

    /// The services that bluetoothd should search for. If the set is empty, bluetoothd should search for all devices. The value is nil
    /// if no discovery should be active.
    private var wanted: Set<BluetoothUUID>? {
        guard !queue.isTaken, !scans.isEmpty else { return nil }
        return scans.values.contains { $0.services.isEmpty }
            ? [] : scans.values.reduce(into: []) { $0.formUnion($1.services) }
    }

    /// Starts, changes or stops bluetoothd's discovery, so that it searches for the wanted services.
    private func reconcile() async -> Result<Void, BlueZError> { await changes.add { await self.adjust() }.value }

    private func adjust() async -> Result<Void, BlueZError> {
        let wanted = wanted
        guard wanted != discovery else { return .success(()) }
        do throws(BlueZError) {
            if discovery != nil {
                discovery = nil
                try await call("StopDiscovery")
            }
            if let wanted {
                try await call("SetDiscoveryFilter", [filter(wanted)])
                try await start()
                discovery = wanted
            }
            return .success(())
        } catch {
            return .failure(error)
        }
    }

    private func filter(_ services: Set<BluetoothUUID>) -> DBusValue {
        var filter: [String: DBusValue] = ["Transport": "le"]
        if !services.isEmpty { filter["UUIDs"] = .strings(services.map(\.description).sorted()) }
        return .properties(filter)
    }

    /// Starts the discovery. After the error `InProgress`, tries again for up to 12 s. The kernel reports this error in two cases.
    /// First: a connection attempt is still ending. Second: the discovery of a killed bluetoothd is still running, for up to 10.24 s.
    private func start() async throws(BlueZError) {
        let giveUp = ContinuousClock.now.advanced(by: .seconds(12))
        while true {
            do throws(BlueZError) { return try await call("StartDiscovery") } catch {
                guard error.code == .inProgress, .now < giveUp else { throw error }
            }
            try? await Task.sleep(for: .milliseconds(300))
        }
    }

    private func call(_ member: String, _ arguments: [DBusValue] = []) async throws(BlueZError) {
        do throws(DBusError) {
            _ = try await bus.call(
                BlueZName.service, adapter, BlueZName.adapter, member, arguments, timeout: .seconds(10))
        } catch {
            throw BlueZError(error, "scan over \(adapter.lastElement)")
        }
    }
}

/// Runs changes of bluetoothd's state one after the other. Each change runs in a new task, so that a cancellation of the caller does
/// not interrupt the change.
struct ChangeQueue {
    private var last: Task<Result<Void, BlueZError>, Never>?

    /// Adds a change, which starts after all earlier changes have ended.
    ///
    /// - Returns: the task that runs the change.
    mutating func add(
        _ change: @escaping @Sendable () async -> Result<Void, BlueZError>
    ) -> Task<Result<Void, BlueZError>, Never> {
        let previous = last
        let task = Task {
            _ = await previous?.value
            return await change()
        }
        last = task
        return task
    }
}
