import DBus

/// A link to a device whose services are known. It lives within `BlueZClient.withConnection`; when the link ends, all that waits
/// on it ends with `disconnected` or with what ended it.
public actor DeviceConnection {
    nonisolated let executor: DBusExecutor
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    /// As it was when the link came up.
    public nonisolated let device: BluetoothDevice
    /// In the order of their handles.
    public nonisolated let services: [GATTService]
    /// Bytes; a write or a notification carries 3 less. 23 where bluetoothd does not tell.
    public nonisolated let mtu: Int
    /// Whether somebody else had made the link. Then it is left as it was.
    public nonisolated let isShared: Bool

    let client: BlueZClient
    private(set) var ended: ConnectionEnd?
    private var waitingForEnd: [CheckedContinuation<ConnectionEnd, Never>] = []
    private var calls: [Int: Task<[DBusValue], any Error>] = [:]
    private var lastCall = 0
    var sockets: [GATTCharacteristic: PacketSocket] = [:]
    var notifying: [GATTCharacteristic: Task<Void, Never>] = [:]

    /// A value that a link of this MTU carries, and an attribute holds, has at most so many bytes.
    public nonisolated var maximumValueLength: Int { min(mtu - 3, 512) }

    init(_ client: BlueZClient, _ device: BluetoothDevice, _ services: [GATTService], mtu: Int?, isShared: Bool) {
        self.client = client
        self.device = device
        self.services = services
        self.mtu = max(23, mtu ?? 23)
        self.isShared = isShared
        executor = client.executor
    }

    /// The first characteristic with this UUID. Throws `no-such-object`.
    public nonisolated func characteristic(
        _ uuid: BluetoothUUID, of service: BluetoothUUID
    ) throws(BlueZError) -> GATTCharacteristic {
        let candidates = services.lazy.filter { $0.uuid == service }.flatMap(\.characteristics)
        guard let found = candidates.first(where: { $0.uuid == uuid }) else {
            throw BlueZError(.noSuchObject, "the device has no characteristic \(uuid) in a service \(service)")
        }
        return found
    }

    // MARK: - The end

    /// Waits for the end of the link; returns at once when it has ended.
    public func end() async -> ConnectionEnd {
        if let ended { return ended }
        return await withCheckedContinuation { waitingForEnd.append($0) }
    }

    func finish(_ end: ConnectionEnd) async {
        guard ended == nil else { return }
        ended = end
        for call in calls.values { call.cancel() }
        for waiting in waitingForEnd { waiting.resume(returning: end) }
        waitingForEnd = []
        for socket in sockets.values { await socket.close() }
        for task in notifying.values { task.cancel() }
        sockets = [:]
        notifying = [:]
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
        // bluetoothd need not answer a call whose device goes; its end does.
        let task = Task {
            try await client.call(operation, path, interface, member, arguments, timeout: timeout)
        }
        calls[number] = task
        defer { calls[number] = nil }
        let outcome = await withTaskCancellationHandler {
            await task.result
        } onCancel: {
            task.cancel()
        }
        do { return try outcome.get() } catch {
            if let ended { throw ended.error }
            throw error as? BlueZError ?? BlueZError(.failed, "\(operation): \(error)")
        }
    }
}
