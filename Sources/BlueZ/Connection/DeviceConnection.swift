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
    public private(set) var ended: ConnectionEnd?
    private var waitingForEnd: [AsyncStream<ConnectionEnd>.Continuation] = []
    private var calls: [Int: Task<[DBusValue], any Error>] = [:]
    private var lastCall = 0
    /// Why calls are given up whose answer would not come.
    private var refused: [Int: BlueZError] = [:]
    private(set) var wasAskedToPair = false
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

    /// Waits for the end of the link; returns at once when it has ended. Throws `cancelled`.
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

    /// bluetoothd pairs by itself when a device demands it for a read or a write. Where that comes to nothing it answers the call
    /// that was refused only when the device's time for it is over, after 30 s (5.66), and then ends the link.
    func askedToPair(wasAnswered: Bool) {
        wasAskedToPair = true
        guard !wasAnswered else { return }
        for (number, call) in calls {
            refused[number] = BlueZError(
                .pairingFailed, "the device demands to be paired, and what it asked was not answered")
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
        // bluetoothd need not answer a call whose device goes; its end does.
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
