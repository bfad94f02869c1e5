import DBus

/// A link to a device whose services are known. It is valid inside `BlueZClient.withConnection`. When the link ends, all pending
/// operations fail with ``BlueZError/Code/disconnected`` or with the error that ended the link.
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

    private let client: BlueZClient
    public private(set) var ended: ConnectionEnd?
    private var waitingForEnd: [AsyncStream<ConnectionEnd>.Continuation] = []
    private var calls: [Int: Task<[DBusValue], any Error>] = [:]
    private var lastCall = 0
    /// The errors of calls that are aborted because no reply would come in time.
    private var refused: [Int: BlueZError] = [:]
    private(set) var wasAskedToPair = false
    private var sockets: [GATTCharacteristic: PacketSocket] = [:]
    private var notifying: [GATTCharacteristic: Task<Void, Never>] = [:]

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

    /// Returns the first characteristic with this UUID. Throws ``BlueZError/Code/noSuchObject``.
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

    /// Waits for the end of the link. Returns at once if it has already ended. Throws ``BlueZError/Code/cancelled``.
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

/// Operations on characteristics. If the device refuses one, it throws ``BlueZError/Code/notPaired``,
/// ``BlueZError/Code/notPermitted``, ``BlueZError/Code/notSupported``, ``BlueZError/Code/invalidLength`` or
/// ``BlueZError/Code/attributeError``. If the link ends, it throws the error that ended the link.
extension DeviceConnection {
    /// Reads the whole value, with as many read requests as necessary.
    public func read(_ characteristic: GATTCharacteristic) async throws(BlueZError) -> [UInt8] {
        let reply = try await call(characteristic, "read", "ReadValue", [[:]])
        do throws(DBusError) { return try reply.require(0, \.bytes) } catch { throw BlueZError(error, "read") }
    }

    /// Writes a value and waits for the device's response. A value longer than MTU − 3 bytes is sent as a long write. Throws
    /// ``BlueZError/Code/inProgress`` if another write to this characteristic is pending, and
    /// ``BlueZError/Code/acquiredElsewhere``.
    public func write(_ value: [UInt8], to characteristic: GATTCharacteristic) async throws(BlueZError) {
        _ = try await call(characteristic, "write", "WriteValue", [.bytes(value), ["type": "request"]])
    }

    /// Writes the values without response, in this order. Returns when bluetoothd has queued them. If a value fails, later
    /// values may have been written.
    public func send(_ values: [[UInt8]], to characteristic: GATTCharacteristic) async throws(BlueZError) {
        // Several calls are in flight at once to hide the delay of the bus. bluetoothd answers before it has sent the
        // value.
        var rest = values[...]
        while !rest.isEmpty {
            let calls = rest.prefix(16).map {
                DBusMethodCall(
                    BlueZName.service, characteristic.path, BlueZName.gattCharacteristic, "WriteValue",
                    [.bytes($0), ["type": "command"]])
            }
            rest = rest.dropFirst(calls.count)
            if let ended { throw ended.error }
            for answer in await client.bus.call(calls) {
                do throws(DBusError) { _ = try answer.get() } catch {
                    throw ended?.error ?? BlueZError(error, "write \(characteristic.uuid)")
                }
            }
        }
    }

    /// Acquires a socket for many fast writes without response. Throws ``BlueZError/Code/notSupported`` if the characteristic or
    /// bluetoothd does not support it, and ``BlueZError/Code/acquiredElsewhere``.
    public func acquireWriter(of characteristic: GATTCharacteristic) async throws(BlueZError) -> AcquiredWriter {
        let (socket, mtu) = try await acquire(characteristic, "AcquireWrite")
        return AcquiredWriter(socket, maximumLength: min(mtu - 3, 512))
    }

    /// Subscribes to notifications or indications of the characteristic. Returns when the device has confirmed the
    /// subscription.
    ///
    /// - Parameter overSocket: whether to use a socket, if available; it is faster than the bus. Use false if the device
    ///   may require a bond and nothing will answer the pairing request. If the link ends while a socket waits for the
    ///   bond, bluetoothd 5.66 counts that socket as in use permanently. It then provides no other socket, and it crashes
    ///   when it removes the device.
    public func subscribe(
        to characteristic: GATTCharacteristic, overSocket: Bool = true
    ) async throws(BlueZError) -> Notifications {
        // bluetoothd provides a socket only for notifications (not indications), and only if no other program has
        // subscribed.
        if overSocket, characteristic.operations.contains(.notify) {
            do throws(BlueZError) {
                return Notifications(source: .socket(try await acquire(characteristic, "AcquireNotify").0))
            } catch {
                guard error.code == .notSupported || error.code == .inProgress || error.code == .noSuchObject else {
                    throw error
                }
            }
        }
        return Notifications(source: .signals(try await startNotifying(characteristic)))
    }

    private func startNotifying(
        _ characteristic: GATTCharacteristic
    ) async throws(BlueZError) -> AsyncStream<[UInt8]> {
        let changes: DBusStream<DBusPropertiesChange>
        do throws(DBusError) {
            changes = try await DBusRemoteObject(client.bus, BlueZName.service, characteristic.path)
                .propertyChanges(BlueZName.gattCharacteristic)
        } catch {
            throw BlueZError(error, "subscribe")
        }
        _ = try await call(characteristic, "subscribe", "StartNotify")
        let (values, feed) = AsyncStream.makeStream(of: [UInt8].self)
        let task = Task {
            // If the bus fails, the end of the link is reported elsewhere.
            var changes = changes.makeAsyncIterator()
            while let change = try? await changes.next() {
                if let value = change.changed["Value"]?.bytes { feed.yield(value) }
            }
            feed.finish()
        }
        if ended == nil { notifying[characteristic] = task } else { task.cancel() }
        return values
    }

    /// Ends a subscription, or releases a writer.
    public func release(_ characteristic: GATTCharacteristic) async throws(BlueZError) {
        if let socket = sockets.removeValue(forKey: characteristic) { await socket.close() }
        if let task = notifying.removeValue(forKey: characteristic) {
            task.cancel()
            _ = try await call(characteristic, "unsubscribe", "StopNotify")
        }
    }

    private func acquire(
        _ characteristic: GATTCharacteristic, _ member: String
    ) async throws(BlueZError) -> (PacketSocket, mtu: Int) {
        let reply = try await call(characteristic, member, member, [[:]])
        do throws(DBusError) {
            let descriptor = try reply.require(0, \.unixFileDescriptor)
            let mtu = try reply.require(1, \.uint16)
            let socket = try PacketSocket(descriptor, on: executor)
            if let ended {
                await socket.close()
                throw DBusError(.socketClosed, ended.error.context)
            }
            sockets[characteristic] = socket
            return (socket, max(23, Int(mtu)))
        } catch {
            throw BlueZError(error, member)
        }
    }

    private func call(
        _ characteristic: GATTCharacteristic, _ operation: String, _ member: String, _ arguments: [DBusValue] = []
    ) async throws(BlueZError) -> [DBusValue] {
        try await call(
            "\(operation) \(characteristic.uuid)", characteristic.path, BlueZName.gattCharacteristic, member, arguments)
    }
}

extension DeviceConnection {
    /// Releases all subscriptions and sockets of a link that stays connected.
    func releaseAll() async {
        for characteristic in Set(notifying.keys).union(sockets.keys) { try? await release(characteristic) }
    }
}

extension DeviceConnection {
    /// Pairs with the device, with the answers of the connection's `PairingResponder`. Does nothing if a bond exists.
    ///
    /// - Throws: ``BlueZError/Code/pairingFailed`` if either side refused or a passkey was wrong; ``BlueZError/Code/inProgress``;
    ///   the error that ended the link.
    public func pair() async throws(BlueZError) {
        // For a device that has an LE bond, bluetoothd assumes that `Pair` requests a second bond over BR/EDR
        // (`pair_device`, 5.66). Therefore bluetoothd is asked for the current state. The local state may be old: the reply
        // to a write can arrive before the report of the bond that the write caused.
        let isPaired = try await call(
            "pair", device.path, BlueZName.properties, "Get", [.string(BlueZName.device), .string("Paired")])
        guard isPaired.first?.unwrapped.boolean != true else { return }
        // bluetoothd gives a person 60 s to answer.
        _ = try await call("pair", device.path, BlueZName.device, "Pair", timeout: .seconds(90))
    }
}
