public import DBus
import Logging

/// The services that this machine offers over one adapter while `BlueZClient.withPeripheral` runs.
///
/// All events are in one sequence, `events`, in the order in which bluetoothd reported them. For reads and writes, to any
/// characteristics, this is also the order over the air, because bluetoothd sends them over one bus connection.
///
/// After a restart of bluetoothd or a removal of the adapter, the services and advertisements are registered again.
public actor Peripheral {
    public nonisolated let executor: DBusExecutor
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    let bus: DBusConnection
    let logger: Logger
    let adapter: DBusObjectPath
    let application: LocalApplication
    let start = ContinuousClock.now

    var table = ConnectionTable()
    public nonisolated let events: PeripheralEvents
    private let continuation: PeripheralEvents.Elements.Continuation
    var registration = Registration()
    /// The packet sockets from which bluetoothd reads notifications.
    var notifySockets: [LocalAttribute: PacketSocket] = [:]
    /// The tasks that read the sockets to which bluetoothd writes.
    var readers: [Task<Void, Never>] = []
    private nonisolated let outbox: AsyncStream<Outgoing>
    private nonisolated let feed: AsyncStream<Outgoing>.Continuation
    private var sending: Task<Void, Never>?

    enum Outgoing: Sendable {
        case notification([UInt8], LocalAttribute)
        case disconnection(PeripheralConnection)
        case disconnectionOfAll
    }

    init(_ bus: DBusConnection, _ logger: Logger, _ adapter: BluetoothAdapter, _ services: [LocalService]) {
        self.bus = bus
        self.logger = logger
        self.adapter = adapter.path
        executor = bus.executor
        application = LocalApplication(root: DBusObjectPath("/peripheral/\(adapter.name)"), services)
        (outbox, feed) = AsyncStream.makeStream()
        let (elements, continuation) = PeripheralEvents.Elements.makeStream()
        events = PeripheralEvents(elements: elements)
        self.continuation = continuation
    }

    /// The adapter's name, such as `hci1`.
    public nonisolated var adapterName: String { adapter.lastElement }

    /// Sends a notification or indication to all subscribed centrals; bluetoothd cannot select a single one. bluetoothd
    /// truncates a value that is longer than a central's MTU − 3 bytes. The method never suspends and keeps the order of
    /// the values. It does not report whether a value arrives.
    public nonisolated func notify(_ value: [UInt8], on attribute: LocalAttribute) {
        feed.yield(.notification(value, attribute))
    }

    /// Ends a connection after all earlier notifications are sent. This takes bluetoothd two seconds.
    public nonisolated func disconnect(_ connection: PeripheralConnection) { feed.yield(.disconnection(connection)) }

    /// Ends the connections of all centrals that have read or written any value.
    public nonisolated func disconnectAll() { feed.yield(.disconnectionOfAll) }

    // MARK: - Events

    func emit(_ event: PeripheralEvent) { continuation.yield(.success(event)) }

    func emit(_ changes: [ConnectionTable.Change]) {
        for change in changes {
            switch change {
            case .connected(let connection): emit(.connected(connection))
            case .disconnected(let connection): emit(.disconnected(connection))
            case .subscribed(let connection, let attribute, let on):
                emit(.subscribed(connection, attribute, on: on))
            }
        }
    }

    /// Ends the event sequence with an error.
    func fail(_ error: BlueZError) {
        emit(table.clear())
        continuation.yield(.failure(error))
        continuation.finish()
    }

    // MARK: - Opening and closing

    /// Exports and registers the services.
    func open() async throws(BlueZError) -> DBusStream<DBusObjectChange> {
        let changes: DBusStream<DBusObjectChange>
        do throws(DBusError) {
            changes = try await bus.managedObjects(of: BlueZName.service)
            try await export()
        } catch { throw BlueZError(error, "offer services over \(adapter.lastElement)") }
        registration.isOpen = true
        // This is a separate task, so that queued values are sent even after the caller was cancelled.
        sending = Task { for await item in outbox { await send(item) } }
        do throws(BlueZError) { try await registerAll() } catch {
            await close()
            throw error
        }
        return changes
    }

    private func export() async throws(DBusError) {
        try await bus.export(application.root, managesObjects: true, onlyFor: BlueZName.service)
        for service in application.services {
            try await bus.export(service.path, [service.interface], onlyFor: BlueZName.service)
            for characteristic in service.characteristics {
                let interface = characteristic.interface(of: service.path, methods(of: characteristic))
                try await bus.export(characteristic.path, [interface], onlyFor: BlueZName.service)
            }
        }
    }

    /// Sends the remaining values and removes all services and advertisements, also in a cancelled task.
    func close() async {
        feed.finish()
        await sending?.value
        await uncancelled { await self.unregisterApplication() }
        emit(table.clear())
        continuation.finish()
    }

    private func unregisterApplication() async {
        registration.isOpen = false
        _ = await registration.attempt?.value
        if registration.isApplicationRegistered {
            await retract(BlueZName.gattManager, "UnregisterApplication", application.root)
        }
        await bus.unexport(application.root)
        for reader in readers { reader.cancel() }
    }
}
