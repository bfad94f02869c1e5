import DBus

/// An open link to a device, with the device's services. The connection is valid only in the body of
/// ``BlueZClient/withConnection(_:pairing:_:)``. When the link ends, all pending operations throw ``BlueZError/Code/disconnected`` or
/// the error that ended the link.
public actor DeviceConnection {
    nonisolated let executor: DBusExecutor
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    /// The device's properties at the time when the link became ready.
    public nonisolated let device: BluetoothDevice
    /// The services, in the order of their handles.
    public nonisolated let services: [GATTService]
    /// The ATT MTU of the link in bytes. A write or a notification carries at most MTU − 3 bytes. If bluetoothd does not report the
    /// MTU, the value is 23, the minimum.
    public nonisolated let mtu: Int
    /// True if another program has opened the link. This program then does not end the link.
    public nonisolated let isShared: Bool
    /// Whether a bond existed before this program connected.
    package nonisolated let wasPaired: Bool
    /// The address of this machine's adapter; nil if bluetoothd has removed the adapter.
    package nonisolated let adapterAddress: BluetoothAddress?

    private let client: BlueZClient
    /// The end of the link; nil while the link is connected.
    public private(set) var ended: ConnectionEnd?
    private var waitingForEnd: [AsyncStream<ConnectionEnd>.Continuation] = []
    private var calls: [Int: Task<[DBusValue], any Error>] = [:]
    private var lastCall = 0
    /// The errors of the calls that `askedToPair` has aborted, by the number of the call.
    private var refused: [Int: BlueZError] = [:]
    /// Whether bluetoothd has asked this program to pair with the device.
    private(set) var wasAskedToPair = false
    /// Whether this program has answered the passkey request or the comparison of the last pairing on this link. A bond that then exists
    /// is authenticated.
    package private(set) var hasAuthenticated: Bool
    private var sockets: [GATTCharacteristic: [PacketSocket]] = [:]
    private var notifying: [GATTCharacteristic: Task<Void, Never>] = [:]

    /// The maximum length in bytes of a value in one packet: MTU − 3, and at most 512, the maximum length of an attribute value (Core
    /// Specification, Vol 3, Part F, 3.2.9).
    public nonisolated var maximumValueLength: Int { min(mtu - 3, 512) }

    init(
        _ client: BlueZClient, _ device: BluetoothDevice, _ services: [GATTService], mtu: Int?, isShared: Bool,
        over adapterAddress: BluetoothAddress?, _ opening: Opening
    ) {
        (wasPaired, hasAuthenticated) = (opening.wasPaired, opening.hasAuthenticated)
        self.client = client
        self.adapterAddress = adapterAddress
        self.device = device
        self.services = services
        self.mtu = max(23, mtu ?? 23)
        self.isShared = isShared
        executor = client.executor
    }

    /// The pairing of the device while its link opened. A device can ask for it before its services are known.
    struct Opening {
        var wasPaired: Bool
        var hasAuthenticated = false
    }

    /// Returns the first characteristic with this UUID in a service with the UUID `service`. Throws ``BlueZError/Code/noSuchObject``
    /// if the device has no such characteristic.
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

    /// Waits for the end of the link. Returns at once if the link has already ended. Throws ``BlueZError/Code/cancelled`` if the task
    /// is cancelled.
    public func waitForEnd() async throws(BlueZError) -> ConnectionEnd {
        if let ended { return ended }
        let (ends, feed) = AsyncStream.makeStream(of: ConnectionEnd.self)
        waitingForEnd.append(feed)
        for await end in ends { return end }
        throw BlueZError(.cancelled, "the task was cancelled")
    }

    /// Records the end of the link and ends all pending operations.
    func finish(_ end: ConnectionEnd) async {
        guard ended == nil else { return }
        ended = end
        for call in calls.values { call.cancel() }
        for waiting in waitingForEnd {
            waiting.yield(end)
            waiting.finish()
        }
        waitingForEnd = []
        for socket in sockets.values.joined() { await socket.close() }
        for task in notifying.values { task.cancel() }
        sockets = [:]
        notifying = [:]
    }

    /// Records a pairing request of the device. If the request was not answered, this method aborts all pending calls. One of these
    /// calls may be the read or write that made bluetoothd start the pairing. After a failed pairing, bluetoothd replies to this
    /// call only after 30 s, and then ends the link (BlueZ 5.66).
    func askedToPair(wasAnswered: Bool, authenticates: Bool) {
        wasAskedToPair = true
        hasAuthenticated = wasAnswered && authenticates
        guard !wasAnswered else { return }
        for (number, call) in calls {
            refused[number] = BlueZError(
                .pairingFailed, "the device requires pairing, and its pairing request was not answered",
                bond: authenticates ? nil : .unauthenticated)
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
        // The call runs in a separate task, so that `finish` can cancel this task when the link ends. Without the cancellation, the
        // caller could wait until the timeout, because bluetoothd may not reply after a device has disappeared.
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

/// Operations on characteristics. If the device refuses an operation, the operation throws ``BlueZError/Code/notPaired``,
/// ``BlueZError/Code/notPermitted``, ``BlueZError/Code/notSupported``, ``BlueZError/Code/invalidLength`` or
/// ``BlueZError/Code/attributeError``. If the link ends during an operation, the operation throws the error that ended the link.
extension DeviceConnection {
    /// Reads the whole value. bluetoothd sends as many read requests as necessary.
    public func read(_ characteristic: GATTCharacteristic) async throws(BlueZError) -> [UInt8] {
        let reply = try await call(characteristic, "read", "ReadValue", [[:]])
        do throws(DBusError) { return try reply.require(0, \.bytes) } catch { throw BlueZError(error, "read") }
    }

    /// Writes a value and waits for the device's response. A value longer than MTU − 3 bytes is sent as a long write. Throws
    /// ``BlueZError/Code/inProgress`` if another write to this characteristic is pending. Throws ``BlueZError/Code/acquiredElsewhere`` if
    /// this or another program has acquired the write socket of this characteristic (``acquireWriter(of:)``).
    public func write(_ value: [UInt8], to characteristic: GATTCharacteristic) async throws(BlueZError) {
        _ = try await call(characteristic, "write", "WriteValue", [.bytes(value), ["type": "request"]])
    }

    /// Writes the values without response, in this order. Returns when bluetoothd has queued all values. If bluetoothd refuses a value,
    /// it may already have accepted later values, because up to 16 calls are in flight at the same time.
    public func send(_ values: [[UInt8]], to characteristic: GATTCharacteristic) async throws(BlueZError) {
        // Several calls are in flight at once, so that a value does not wait for the reply to the previous value.
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

    /// Acquires a socket for fast writes without response. Throws ``BlueZError/Code/notSupported`` if the characteristic or
    /// bluetoothd does not support such a socket. Throws ``BlueZError/Code/acquiredElsewhere`` if this or another program has already
    /// acquired the write socket.
    public func acquireWriter(of characteristic: GATTCharacteristic) async throws(BlueZError) -> AcquiredWriter {
        let (socket, mtu) = try await acquire(characteristic, "AcquireWrite")
        return AcquiredWriter(socket, maximumLength: min(mtu - 3, 512))
    }

    /// Subscribes to notifications or indications of the characteristic. Returns when the device has confirmed the subscription.
    ///
    /// - Parameter overSocket: true to ask bluetoothd for a socket. A socket is faster than D-Bus signals. If bluetoothd provides no
    ///   socket, this method uses D-Bus signals. Pass false if the device may require a bond and no program answers the pairing request.
    ///   The reason is a bug of BlueZ 5.66: if the link ends before the bond exists, bluetoothd never releases the socket. bluetoothd
    ///   then provides no further socket for the characteristic, and crashes when the device is removed.
    public func subscribe(
        to characteristic: GATTCharacteristic, overSocket: Bool = true
    ) async throws(BlueZError) -> Notifications {
        // bluetoothd provides a socket only for notifications (not for indications), and only if no other program has subscribed.
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
            // A bus error ends this loop, too. `BlueZClient` reports a bus error as the end of the link.
            var changes = changes.makeAsyncIterator()
            while let change = try? await changes.next() {
                if let value = change.changed["Value"]?.bytes { feed.yield(value) }
            }
            feed.finish()
        }
        if ended == nil { notifying[characteristic] = task } else { task.cancel() }
        return values
    }

    /// Ends the subscription to a characteristic, and closes the acquired sockets of the characteristic.
    public func release(_ characteristic: GATTCharacteristic) async throws(BlueZError) {
        for socket in sockets.removeValue(forKey: characteristic) ?? [] { await socket.close() }
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
            sockets[characteristic, default: []].append(socket)
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
    /// Ends all subscriptions and closes all sockets. This method is necessary for a shared link, because a shared link stays connected,
    /// and bluetoothd would keep the subscriptions.
    func releaseAll() async {
        for characteristic in Set(notifying.keys).union(sockets.keys) { try? await release(characteristic) }
    }
}

extension DeviceConnection {
    /// Pairs with the device. The responder of the connection or of the adapter answers the pairing requests (``PairingResponder``). This
    /// method does nothing if a bond already exists.
    ///
    /// - Parameter authenticated: true to accept the new bond only if this program has answered a passkey request or a comparison. If the
    ///   device has neither a display nor a keyboard, bluetoothd creates an unauthenticated bond without a request. This method then
    ///   removes the device, and with it the bond and the link. BlueZ does not report whether an existing bond is authenticated, so a
    ///   bond from before this connection is accepted.
    ///
    /// - Throws: ``BlueZError/Code/pairingFailed`` if this machine or the device refused the pairing, if the passkey was wrong, or if
    ///   `authenticated` is true and the new bond is not authenticated; ``BlueZError/Code/inProgress`` if another pairing is running; the
    ///   error that ended the link.
    public func pair(authenticated: Bool = false) async throws(BlueZError) {
        // Do not call `Pair` if an LE bond exists, because bluetoothd would then try to create a second bond over BR/EDR (BlueZ
        // 5.66, `pair_device`). Ask bluetoothd whether the bond exists, because `client.tree` may be old: bluetoothd can reply to a
        // write before it reports the bond that the write has caused.
        let isPaired = try await call(
            "pair", device.path, BlueZName.properties, "Get", [.string(BlueZName.device), .string("Paired")])
        if isPaired.first?.unwrapped.boolean != true {
            // A request that needs a bond comes after the end of an earlier pairing, so its answers do not count for this one.
            if !authenticated { hasAuthenticated = false }
            // The timeout is longer than the 60 s that bluetoothd gives a person to answer.
            _ = try await call("pair", device.path, BlueZName.device, "Pair", timeout: .seconds(90))
        }
        guard authenticated, !wasPaired, !hasAuthenticated else { return }
        try await removeBond()
        throw BlueZError(
            .pairingFailed, "the pairing is not authenticated, because the device has no display and no keyboard",
            bond: .unauthenticated)
    }

    /// Removes the device from bluetoothd, and with it the bond and the link.
    package func removeBond() async throws(BlueZError) {
        try await client.removeDevice(await address, over: device.adapter.lastElement)
    }

    /// The address of the device now. bluetoothd replaces a private address by the identity address when it pairs.
    package var address: BluetoothAddress {
        get async { await client.tree.devices[device.path]?.address ?? device.address }
    }

    /// Whether bluetoothd has a bond with the device now, as far as it has reported.
    package var isPaired: Bool { get async { await client.isPaired(device) } }
}
