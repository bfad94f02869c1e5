public import DBus
import Logging

/// Services that this machine offers over one adapter, while `BlueZClient.withPeripheral` runs.
///
/// Everything that comes is one sequence, `events`, in the order in which bluetoothd told of it. Among reads and writes, to
/// whatever characteristics, that is the order in which they came over the air, since bluetoothd sends them over one connection
/// to the bus.
///
/// bluetoothd may die and come back, and the adapter may go and come: the services and advertisements are registered again.
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
    /// Packet sockets that bluetoothd reads notifications from.
    var notifySockets: [LocalAttribute: PacketSocket] = [:]
    /// Tasks that read what bluetoothd writes into a socket.
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

    /// Such as `hci1`.
    public nonisolated var adapterName: String { adapter.lastElement }

    /// Notifies, or indicates, whoever has subscribed: bluetoothd knows no way to single one out. A value beyond a central's MTU
    /// less 3 is cut off by bluetoothd. Never suspends; what is sent keeps its order. Nobody is told whether it arrives.
    public nonisolated func notify(_ value: [UInt8], on attribute: LocalAttribute) {
        feed.yield(.notification(value, attribute))
    }

    /// Ends a connection, behind the notifications before. bluetoothd takes two seconds over it.
    public nonisolated func disconnect(_ connection: PeripheralConnection) { feed.yield(.disconnection(connection)) }

    /// Ends the connections of all centrals that have read or written anything.
    public nonisolated func disconnectAll() { feed.yield(.disconnectionOfAll) }

    // MARK: - What happens

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

    /// Nothing will come any more.
    func fail(_ error: BlueZError) {
        emit(table.clear())
        continuation.yield(.failure(error))
        continuation.finish()
    }

    // MARK: - Its life

    /// Exports and registers the services.
    func open() async throws(BlueZError) -> DBusStream<DBusObjectChange> {
        let changes: DBusStream<DBusObjectChange>
        do throws(DBusError) {
            changes = try await bus.managedObjects(of: BlueZName.service)
            try await export()
        } catch { throw BlueZError(error, "offer services over \(adapter.lastElement)") }
        registration.isOpen = true
        // A task of its own: what was said before the end is sent even where the caller was cancelled.
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

    /// Sends what is left and takes everything back; also in a task that was cancelled.
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
