public import DBus
public import Logging

/// A client of bluetoothd over one connection to the bus. It provides the adapters and devices, and connects to devices.
///
/// It runs on the thread of its bus connection. When bluetoothd stops, all operations end with
/// ``BlueZError/Code/serviceUnavailable``; after a restart of bluetoothd, the client can be used again. When the bus connection
/// ends, the client is unusable and throws ``BlueZError/Code/busUnavailable``.
public actor BlueZClient {
    public nonisolated let executor: DBusExecutor
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    let bus: DBusConnection
    let logger: Logger
    nonisolated let links: (any LinkAccount)?

    var tree = BlueZObjectTree()
    /// The error that ended the client.
    private(set) var end: BlueZError?
    /// The names of the adapters that have been powered since the client was opened.
    private var usableAdapters: Set<String> = []
    private struct RadioKey: Hashable {
        var adapter: DBusObjectPath
        var generation: Int
    }

    private var observers: [Int: AsyncStream<Void>.Continuation] = [:]
    private var lastObserver = 0
    private var listeners: [Task<Void, Never>] = []
    private var radios: [RadioKey: AdapterRadio] = [:]
    /// The reason why the last link of each device ended. bluetoothd reports it since version 5.83.
    var reasons: [DBusObjectPath: DisconnectReason] = [:]
    var connections: [DBusObjectPath: DeviceConnection] = [:]

    /// The pairing agent, with the value of `tree.generation` at its creation. The value changes when bluetoothd stops. Then a new agent
    /// is necessary.
    private var agent: (generation: Int, PairingAgent)?

    private init(_ bus: DBusConnection, _ logger: Logger, _ links: (any LinkAccount)?) {
        self.bus = bus
        self.logger = logger
        self.links = links
        executor = bus.executor
    }

    deinit {
        for listener in listeners { listener.cancel() }
    }

    /// Connects to the bus and reads bluetoothd's objects, if it is running.
    ///
    /// - Parameter links: records the links that this client must end.
    ///
    /// - Throws: ``BlueZError/Code/busUnavailable``, ``BlueZError/Code/accessDenied``, ``BlueZError/Code/cancelled``.
    public static func open(
        _ bus: DBusBus = .system, logger: Logger = Logger(label: "bluez"), links: (any LinkAccount)? = nil
    ) async throws(BlueZError) -> BlueZClient {
        let connection: DBusConnection
        do throws(DBusError) { connection = try await .open(bus, logger: logger) } catch {
            throw BlueZError(error, "connect to the bus")
        }
        let client = BlueZClient(connection, logger, links)
        try await client.listen()
        return client
    }

    /// Closes the client and ends all its operations.
    public func close() async {
        finish(BlueZError(.busUnavailable, "the connection to the bus was closed"))
        await bus.close()
    }

    /// The adapters of this machine, in the order of their numbers. Throws ``BlueZError/Code/busUnavailable`` and
    /// ``BlueZError/Code/serviceUnavailable``.
    public var adapters: [BluetoothAdapter] {
        get throws(BlueZError) {
            if let end { throw end }
            guard tree.isServiceRunning else { throw BlueZError(.serviceUnavailable, "bluetoothd is not running") }
            return tree.adapterList
        }
    }

    /// Removes a device from bluetoothd: its bond, its cached attributes, and its link if there is one. Does nothing if
    /// bluetoothd has no object for the device.
    ///
    /// - Throws: ``BlueZError/Code/serviceUnavailable``, ``BlueZError/Code/noSuchAdapter``, ``BlueZError/Code/adapterOff``.
    public func removeDevice(_ address: BluetoothAddress, over adapter: String? = nil) async throws(BlueZError) {
        let adapter = try tree.usableAdapter(adapter).path
        guard let device = tree.devices(of: adapter).first(where: { $0.address == address }) else { return }
        _ = try await call(
            "remove \(address)", adapter, BlueZName.adapter, "RemoveDevice", [.objectPath(device.path)])
    }

    /// Whether the client is open.
    package var isOpen: Bool { end == nil }

    /// Returns whether the adapter has been powered at any time since the client was opened.
    ///
    /// - Parameter name: the adapter's name. Nil: any adapter.
    func hasBeenUsable(_ name: String?) -> Bool {
        name.map(usableAdapters.contains) ?? !usableAdapters.isEmpty
    }

    /// Calls a method of bluetoothd. `operation` describes the call in the text of an error.
    func call(
        _ operation: String, _ path: DBusObjectPath, _ interface: String, _ member: String,
        _ arguments: [DBusValue] = [], timeout: Duration? = .seconds(10)
    ) async throws(BlueZError) -> [DBusValue] {
        do throws(DBusError) {
            return try await bus.call(BlueZName.service, path, interface, member, arguments, timeout: timeout)
        } catch {
            throw BlueZError(error, operation)
        }
    }

    // MARK: - Listening

    private func listen() async throws(BlueZError) {
        let signals: DBusStream<DBusSignal>
        let changes: DBusStream<DBusObjectChange>
        do throws(DBusError) {
            signals = try await bus.signals(
                matching: DBusMatch(sender: BlueZName.service, interface: BlueZName.device, member: "Disconnected"))
            changes = try await bus.managedObjects(of: BlueZName.service)
        } catch {
            throw BlueZError(error, "listen to bluetoothd")
        }
        let (first, readiness) = AsyncStream.makeStream(of: Void.self)
        listeners = [
            Task { [weak self] in
                // If the bus connection ends, the second task reports the error.
                var signals = signals.makeAsyncIterator()
                while let signal = try? await signals.next() { await self?.note(signal) }
            },
            Task { [weak self] in
                do throws(DBusError) {
                    for try await change in changes {
                        await self?.apply(change)
                        readiness.finish()
                    }
                } catch {
                    await self?.finish(BlueZError(error, "listen to bluetoothd"))
                    readiness.finish()
                }
            },
        ]
        for await _ in first {}
        if let end { throw end }
        if !tree.isServiceRunning { await startService() }
    }

    /// Calls a method of bluetoothd. If D-Bus activation is configured for bluetoothd, the bus starts it for this call. The
    /// result of the call shows whether bluetoothd is running.
    private func startService() async {
        do throws(BlueZError) {
            _ = try await call("start bluetoothd", .root, BlueZName.objectManager, "GetManagedObjects")
        } catch {
            logger.debug("bluetoothd is not running", metadata: ["reason": "\(error)"])
        }
    }

    /// Reads all objects of bluetoothd again. It opens a new object stream, because a new stream starts with a snapshot that
    /// is in order with the signals. The client's own stream may deliver older changes after this snapshot. It also delivers
    /// all later changes, so the final value of each property is correct.
    func refresh() async throws(BlueZError) {
        do throws(DBusError) {
            for try await change in try await bus.managedObjects(of: BlueZName.service) {
                return apply(change)
            }
            throw DBusError(.cancelled, "the task was cancelled")
        } catch {
            throw BlueZError(error, "list the objects of bluetoothd")
        }
    }

    private func note(_ signal: DBusSignal) { reasons[signal.path] = DisconnectReason(signal.arguments) }

    private func apply(_ change: DBusObjectChange) {
        for malformed in tree.apply(change) {
            logger.warning(
                "malformed object from bluetoothd",
                metadata: [
                    "object": "\(malformed.path)", "interface": "\(malformed.interface)",
                    "reason": "\(malformed.reason)",
                ])
        }
        usableAdapters.formUnion(tree.adapterList.filter(\.isPowered).map(\.name))
        notify()
    }

    private func finish(_ error: BlueZError) {
        guard end == nil else { return }
        end = error
        for listener in listeners { listener.cancel() }
        _ = tree.apply(.serviceLost)
        notify()
    }

    private func notify() {
        for observer in observers.values { observer.yield() }
    }

    /// Returns a stream that signals changes of `tree`. One element is available at once, and at least one more after each
    /// change. The stream is for one reader, which reads `tree` after each element.
    func changes() -> AsyncStream<Void> {
        let (stream, feed) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        lastObserver += 1
        let number = lastObserver
        observers[number] = feed
        feed.onTermination = { [weak self] _ in
            guard let self else { return }
            Task { await self.removeObserver(number) }
        }
        feed.yield()
        return stream
    }

    private func removeObserver(_ number: Int) { observers[number] = nil }

    /// Returns the coordinator for the radio of an adapter. After a restart of bluetoothd, each adapter gets a new
    /// coordinator.
    func radio(_ adapter: DBusObjectPath) -> AdapterRadio {
        let key = RadioKey(adapter: adapter, generation: tree.generation)
        if let radio = radios[key] { return radio }
        let radio = AdapterRadio(adapter, bus, logger)
        radios = radios.filter { $0.key.generation == key.generation }
        radios[key] = radio
        return radio
    }

    func pairingAgent() -> PairingAgent {
        if let agent, agent.generation == tree.generation { return agent.1 }
        let new = PairingAgent(bus) { [weak self] path in
            await self?.tree.devices[path]
        } onQuestion: { [weak self] path, wasAnswered in
            await self?.pairingAsked(path, wasAnswered: wasAnswered)
        }
        agent = (tree.generation, new)
        return new
    }
}
