import DBus

/// A link to a device whose services are known. It is valid inside `BlueZClient.withConnection`. When the link ends, all
/// pending operations fail with `disconnected` or with the error that ended the link.
public actor DeviceConnection {
    nonisolated let executor: DBusExecutor
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    /// The device's properties at the time when the link became ready.
    public nonisolated let device: BluetoothDevice
    /// The services, in the order of their handles.
    public nonisolated let services: [GATTService]
    /// The ATT MTU in bytes. A write or a notification carries at most MTU − 3 bytes. The value is 23 if bluetoothd does
    /// not report it.
    public nonisolated let mtu: Int
    /// Whether another program created the link. If so, this program does not end it.
    public nonisolated let isShared: Bool

    let client: BlueZClient
    public private(set) var ended: ConnectionEnd?
    private var waitingForEnd: [AsyncStream<ConnectionEnd>.Continuation] = []
    private var calls: [Int: Task<[DBusValue], any Error>] = [:]
    private var lastCall = 0
    /// The errors of calls that are aborted because no reply would come in time.
    private var refused: [Int: BlueZError] = [:]
    private(set) var wasAskedToPair = false
    var sockets: [GATTCharacteristic: PacketSocket] = [:]
    var notifying: [GATTCharacteristic: Task<Void, Never>] = [:]

    /// The maximum length of a value in bytes: limited by the MTU of the link and by the maximum length of an attribute
    /// (512).
    public nonisolated var maximumValueLength: Int { min(mtu - 3, 512) }

    init(_ client: BlueZClient, _ device: BluetoothDevice, _ services: [GATTService], mtu: Int?, isShared: Bool) {
        self.client = client
        self.device = device
        self.services = services
        self.mtu = max(23, mtu ?? 23)
        self.isShared = isShared
        executor = client.executor
    }

    /// Returns the first characteristic with this UUID. Throws `no-such-object`.
    public nonisolated func characteristic(
        _ uuid: BluetoothUUID, of service: BluetoothUUID
    ) throws(BlueZError) -> GATTCharacteristic {
        let candidates = services.lazy.filter { $0.uuid == service }.flatMap(\.characteristics)
        guard let found = candidates.first(where: { $0.uuid == uuid }) else {
            throw BlueZError(.noSuchObject, "the device has no characteristic \(uuid) in a service \(service)")
        }
        return found
    }

    // MARK: - End of the link

    /// Waits for the end of the link. Returns at once if it has already ended. Throws `cancelled`.
    public func waitForEnd() async throws(BlueZError) -> ConnectionEnd {
        if let ended { return ended }
        let (ends, feed) = AsyncStream.makeStream(of: ConnectionEnd.self)
        waitingForEnd.append(feed)
        for await end in ends { return end }
        throw BlueZError(.cancelled, "the task was cancelled")
    }

    func finish(_ end: ConnectionEnd) async {
        guard ended == nil else { return }
        ended = end
        for call in calls.values { call.cancel() }
        for waiting in waitingForEnd {
            waiting.yield(end)
            waiting.finish()
        }
        waitingForEnd = []
        for socket in sockets.values { await socket.close() }
        for task in notifying.values { task.cancel() }
        sockets = [:]
        notifying = [:]
    }

    /// Aborts the pending calls if a pairing request was not answered. If a device requires pairing for a read or write,
    /// bluetoothd pairs on its own. If that fails, bluetoothd answers the refused call only after the device's timeout of
    /// 30 s (5.66), and then ends the link.
    func askedToPair(wasAnswered: Bool) {
        wasAskedToPair = true
        guard !wasAnswered else { return }
        for (number, call) in calls {
            refused[number] = BlueZError(
                .pairingFailed, "the device requires pairing, and its pairing request was not answered")
            call.cancel()
        }
    }

    // MARK: - Calls

    func call(
        _ operation: String, _ path: DBusObjectPath, _ interface: String, _ member: String,
        _ arguments: [DBusValue] = [], timeout: Duration = .seconds(35)
    ) async throws(BlueZError) -> [DBusValue] {
        if let ended { throw ended.error }
        lastCall += 1
        let number = lastCall
        let client = client
        // If the device disappears, bluetoothd may not answer the call. The end of the link then ends it.
        let task = Task {
            try await client.call(operation, path, interface, member, arguments, timeout: timeout)
        }
        calls[number] = task
        defer {
            calls[number] = nil
            refused[number] = nil
        }
        let outcome = await withTaskCancellationHandler {
            await task.result
        } onCancel: {
            task.cancel()
        }
        do { return try outcome.get() } catch {
            if let ended { throw ended.error }
            if let refusal = refused[number] { throw refusal }
            throw error as? BlueZError ?? BlueZError(.failed, "\(operation): \(error)")
        }
    }
}
