public import DBus
import Logging

/// The services that this machine offers over one adapter. A peripheral is valid only in the body of
/// ``BlueZClient/withPeripheral(over:offering:_:)``.
///
/// ``events`` contains all events in the order of bluetoothd's reports. Reads and writes are in the order in which they arrived over the
/// air, because bluetoothd reports all of them over one bus connection. Writes through a socket can be in another order
/// (``LocalCharacteristic/Socket/write``).
///
/// After a restart of bluetoothd, or when a removed adapter exists again, the peripheral registers its services and advertisements again.
public actor Peripheral {
    public nonisolated let executor: DBusExecutor
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    let bus: DBusConnection
    let logger: Logger
    let adapter: DBusObjectPath
    let application: LocalApplication
    let start = ContinuousClock.now
    /// Returns the end that opened the link to a device.
    let opener: @Sendable (BluetoothAddress) -> LinkOpener

    var table = ConnectionTable()
    /// The events of this peripheral. Only one task may read them.
    public nonisolated let events: PeripheralEvents
    private let continuation: PeripheralEvents.Elements.Continuation
    var registration = Registration()
    /// The packet sockets from which bluetoothd reads notifications, by characteristic.
    var notifySockets: [LocalAttribute: PacketSocket] = [:]
    /// The tasks that read the packet sockets until bluetoothd closes the sockets.
    var readers: [Task<Void, Never>] = []
    private nonisolated let outbox: AsyncStream<Outgoing>
    private nonisolated let feed: AsyncStream<Outgoing>.Continuation
    private var sending: Task<Void, Never>?

    enum Outgoing: Sendable {
        case notification([UInt8], LocalAttribute)
        case disconnection(PeripheralConnection)
        case disconnectionOfAll
    }

    init(
        _ bus: DBusConnection, _ logger: Logger, _ adapter: BluetoothAdapter, _ services: [LocalService],
        _ opener: (@Sendable (BluetoothAddress) -> LinkOpener)?
    ) {
        self.opener = opener ?? { [name = adapter.name] in KernelLinks.opener(of: $0, over: name) }
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

    /// Queues a notification or indication for all subscribed centrals. bluetoothd cannot send a value to only one of several
    /// centrals. The values are sent in the order of the calls. If a value is longer than a central's
    /// ``WriteRequest/maximumNotificationLength``, bluetoothd may truncate the value for this central. This method does not suspend, and
    /// does not report whether a value arrives. bluetoothd's queue has no limit, so a program should wait until the central proves that
    /// earlier values have arrived.
    public nonisolated func notify(_ value: [UInt8], on attribute: LocalAttribute) {
        feed.yield(.notification(value, attribute))
    }

    /// Queues the end of a connection. The connection ends after all earlier notifications are sent. bluetoothd needs 2 s to end the
    /// connection.
    public nonisolated func disconnect(_ connection: PeripheralConnection) { feed.yield(.disconnection(connection)) }

    /// Queues the end of the connections of all centrals that have read or written a value.
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

    /// Reports the end of all connections, and then ends the event sequence with an error.
    private func fail(_ error: BlueZError) {
        emit(table.clear())
        continuation.yield(.failure(error))
        continuation.finish()
    }

    // MARK: - Opening and closing

    /// Exports and registers the services. Returns a stream of the changes of bluetoothd's objects, for `follow`.
    func open() async throws(BlueZError) -> DBusStream<DBusObjectChange> {
        let changes: DBusStream<DBusObjectChange>
        do throws(DBusError) {
            changes = try await bus.managedObjects(of: BlueZName.service)
            try await export()
        } catch { throw BlueZError(error, "offer services over \(adapter.lastElement)") }
        registration.isOpen = true
        // A separate task sends the queued items, so that this program sends them even if the caller's task is cancelled.
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

    /// Sends the queued items, removes the services and ends the event sequence, even if the task is cancelled.
    func close() async {
        feed.finish()
        await sending?.value
        registration.isOpen = false
        _ = await registration.changes.add {
            await self.unregisterApplication()
            return .success(())
        }.value
        emit(table.clear())
        continuation.finish()
    }

    private func unregisterApplication() async {
        if registration.isApplicationRegistered {
            await retract(BlueZName.gattManager, "UnregisterApplication", application.root)
        }
        await bus.unexport(application.root)
        for reader in readers { reader.cancel() }
    }
}

/// Processes changes of adapters and devices that bluetoothd reports.
extension Peripheral {
    func follow(_ changes: DBusStream<DBusObjectChange>) async {
        do throws(DBusError) {
            for try await change in changes { apply(change) }
        } catch {
            fail(BlueZError(error, "the bus"))
        }
    }

    private func apply(_ change: DBusObjectChange) {
        switch change {
        case .snapshot(let objects): for (path, interfaces) in objects { added(path, interfaces) }
        case .added(let path, let interfaces): added(path, interfaces)
        case .removed(let path, let names):
            if names.contains(BlueZName.device) { ended(path) }
            if path == adapter, names.contains(BlueZName.gattManager) { registration.reset() }
        case .changed(let change):
            if change.interface == BlueZName.device { noticed(change.path, change.changed) }
            // bluetoothd refuses advertisements while the adapter is off. Now the adapter is on, so register the advertisements
            // that are not registered.
            if change.path == adapter, change.changed["Powered"]?.boolean == true { register() }
        case .serviceLost:
            emit(table.clear())
            registration.reset()
        }
    }

    private func added(_ path: DBusObjectPath, _ interfaces: DBusObjectChange.Interfaces) {
        if let properties = interfaces[BlueZName.device] { noticed(path, properties) }
        if path == adapter, interfaces.keys.contains(BlueZName.gattManager) { register() }
    }

    private func noticed(_ device: DBusObjectPath, _ properties: [String: DBusValue]) {
        guard device.isDescendant(of: adapter), let isConnected = properties["Connected"]?.boolean else { return }
        if isConnected {
            emit(table.connected(device, openedBy: opener))
        } else {
            ended(device)
        }
    }

    func ended(_ device: DBusObjectPath) {
        table.disconnected(device, at: start.duration(to: .now))
        Task {
            try? await Task.sleep(for: ConnectionTable.linger)
            emit(table.expire(at: start.duration(to: .now)))
        }
    }
}

/// Sends the queued notifications and disconnections in order.
extension Peripheral {
    private func send(_ item: Outgoing) async {
        do throws(DBusError) {
            switch item {
            case .notification(let value, let attribute): try await send(value, attribute)
            case .disconnection(let connection):
                if let device = table.device(of: connection) { try await disconnect(device) }
            case .disconnectionOfAll:
                for device in table.centrals { try await disconnect(device) }
            }
        } catch {
            logger.debug("an outgoing item was not sent", metadata: ["reason": "\(error)"])
        }
    }

    private func send(_ value: [UInt8], _ attribute: LocalAttribute) async throws(DBusError) {
        if let socket = notifySockets[attribute] {
            try await socket.send([value])
        } else if let path = application.path(of: attribute) {
            try await bus.update(path, BlueZName.gattCharacteristic, ["Value": .bytes(value)])
        }
    }

    private func disconnect(_ device: DBusObjectPath) async throws(DBusError) {
        try await bus.callWithoutReply(BlueZName.service, device, BlueZName.device, "Disconnect")
    }
}

extension BlueZClient {
    /// Offers services over an adapter while `body` runs. This method always removes the services when `body` has returned or has
    /// thrown an error.
    ///
    /// - Parameter adapter: the name of the adapter, such as `hci1`; nil for the first powered adapter. A client can offer only one set
    ///   of services per adapter at a time.
    ///
    /// - Throws: the errors of `body`; ``BlueZError/Code/busUnavailable``, ``BlueZError/Code/serviceUnavailable``,
    ///   ``BlueZError/Code/noSuchAdapter``, ``BlueZError/Code/adapterOff``, ``BlueZError/Code/accessDenied``, and
    ///   ``BlueZError/Code/invalidArguments`` if this client already offers services over this adapter.
    public nonisolated func withPeripheral<Result>(
        over adapter: String? = nil, offering services: [LocalService], _ body: (Peripheral) async throws -> Result
    ) async throws -> Result {
        try await withPeripheral(over: adapter, offering: services, opener: nil, body)
    }

    /// Like the public method, but with links that `opener` describes. Nil: the kernel describes the links.
    package nonisolated func withPeripheral<Result>(
        over adapter: String?, offering services: [LocalService],
        opener: (@Sendable (BluetoothAddress) -> LinkOpener)?, _ body: (Peripheral) async throws -> Result
    ) async throws -> Result {
        let peripheral = Peripheral(bus, logger, try await usableAdapter(adapter), services, opener)
        let changes = try await peripheral.open()
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await peripheral.follow(changes) }
            defer { group.cancelAll() }
            do {
                let result = try await body(peripheral)
                await peripheral.close()
                return result
            } catch {
                await peripheral.close()
                throw error
            }
        }
    }

    func usableAdapter(_ name: String?) throws(BlueZError) -> BluetoothAdapter {
        guard isOpen else { throw BlueZError(.busUnavailable, "the connection to the bus has ended") }
        return try tree.usableAdapter(name)
    }
}
