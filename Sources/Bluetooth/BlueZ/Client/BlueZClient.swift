public import DBus
public import Logging

/// A client of bluetoothd over one connection to the bus. It lists the adapters, finds devices and connects to devices.
///
/// The client runs on the thread of its bus connection. When bluetoothd stops, all operations end with
/// ``BlueZError/Code/serviceUnavailable``. After a restart of bluetoothd, the client can be used again. When the bus connection ends,
/// all operations throw ``BlueZError/Code/busUnavailable``, and the client can no longer be used.
public actor BlueZClient {
    public nonisolated let executor: DBusExecutor
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    let bus: DBusConnection
    let logger: Logger
    nonisolated let links: (any LinkAccount)?

    var tree = BlueZObjectTree()
    /// The error that ended the client; nil while the client is open.
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
    /// The reason for the end of each device's last link. bluetoothd reports the reason since BlueZ 5.83.
    var reasons: [DBusObjectPath: DisconnectReason] = [:]
    var connections: [DBusObjectPath: DeviceConnection] = [:]
    /// The devices to which this program connects now.
    var openings: [DBusObjectPath: DeviceConnection.Opening] = [:]

    /// The pairing agent, and the value of `tree.generation` when the agent was created. If bluetoothd stops, `tree.generation` increases,
    /// and the client needs a new agent. `agent` is nil if the client has not created an agent.
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

    /// Connects to the bus and reads bluetoothd's objects. If bluetoothd is not running, this method asks the bus to start
    /// bluetoothd. A failed start is not an error of this method.
    ///
    /// - Parameter links: records the links that this client must end. If this program is killed, another program can read the recorded
    ///   links and end them.
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

    /// Removes a device from bluetoothd. The removal deletes the bond and the cached attributes, and ends the link to the device.
    /// This method does nothing if bluetoothd does not know the device.
    ///
    /// - Throws: ``BlueZError/Code/serviceUnavailable``, ``BlueZError/Code/noSuchAdapter``, ``BlueZError/Code/adapterOff``, and the errors
    ///   of the D-Bus call `RemoveDevice`.
    public func removeDevice(_ address: BluetoothAddress, over adapter: String? = nil) async throws(BlueZError) {
        let adapter = try tree.usableAdapter(adapter).path
        guard let device = tree.devices(of: adapter).first(where: { $0.address == address }) else { return }
        _ = try await call(
            "remove \(address)", adapter, BlueZName.adapter, "RemoveDevice", [.objectPath(device.path)])
    }

    /// The addresses of all devices that bluetoothd knows over an adapter.
    package func knownAddresses(over adapter: String) -> Set<BluetoothAddress> {
        Set(tree.devices.values.filter { $0.adapterName == adapter }.map(\.address))
    }

    /// The address of the device that bluetoothd knows under a name over an adapter; nil if it knows none or several.
    package func knownAddress(ofName name: String, over adapter: String) -> BluetoothAddress? {
        let found = tree.devices.values.filter { $0.adapterName == adapter && $0.name == name }
        return found.count == 1 ? found.first?.address : nil
    }

    /// Whether bluetoothd has a bond with a device.
    package func isPaired(_ device: BluetoothDevice) -> Bool { tree.devices[device.path]?.isPaired == true }

    /// Whether the client is open.
    package var isOpen: Bool { end == nil }

    /// Returns true if the adapter was powered at any time since the client was opened.
    ///
    /// - Parameter name: the name of the adapter; nil for any adapter.
    func hasBeenUsable(_ name: String?) -> Bool {
        name.map(usableAdapters.contains) ?? !usableAdapters.isEmpty
    }

    /// Calls a method of bluetoothd. `operation` describes the call in the error text.
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
                // A bus error ends this loop, too. The task below reports the error.
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

    /// Starts bluetoothd with a method call, if D-Bus activation is configured for bluetoothd. A failure is only logged, because
    /// later operations report that bluetoothd is not running.
    private func startService() async {
        do throws(BlueZError) {
            _ = try await call("start bluetoothd", .root, BlueZName.objectManager, "GetManagedObjects")
        } catch {
            logger.debug("bluetoothd is not running", metadata: ["reason": "\(error)"])
        }
    }

    /// Reads all objects of bluetoothd again: opens a new object stream and applies its first element, a snapshot of all objects.
    ///
    /// After this method, the stream of `listen` may still deliver changes that are older than the snapshot. Such a change sets a property
    /// to an old value. The property has the current value again when the stream of `listen` has delivered the newer changes.
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

    /// Returns a stream that signals changes of `tree`. The first element is available at once. Several changes can cause a single
    /// element, so the reader must read `tree` after each element. Only one task may read the stream.
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

    /// Returns the `AdapterRadio` of an adapter. After a restart of bluetoothd, each adapter gets a new `AdapterRadio`, because
    /// bluetoothd has lost all discoveries.
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
        } onQuestion: { [weak self] path, wasAnswered, authenticates in
            await self?.pairingAsked(path, wasAnswered: wasAnswered, authenticates: authenticates)
        }
        agent = (tree.generation, new)
        return new
    }
}
