import DBus

/// What can be done with a characteristic. What the device refuses is thrown: `not-paired`, `not-permitted`, `not-supported`,
/// `invalid-length`, `attribute-error`; and when the link ends, what ended it.
extension DeviceConnection {
    /// All of the value, in as many reads as it takes.
    public func read(_ characteristic: GATTCharacteristic) async throws(BlueZError) -> [UInt8] {
        let reply = try await call(characteristic, "read", "ReadValue", [[:]])
        do throws(DBusError) { return try reply.require(0, \.bytes) } catch { throw BlueZError(error, "read") }
    }

    /// Writes and waits for the device's answer. A value longer than MTU − 3 goes in parts (a long write). Throws `in-progress`
    /// while another write to this characteristic is not answered, and `acquired-elsewhere`.
    public func write(_ value: [UInt8], to characteristic: GATTCharacteristic) async throws(BlueZError) {
        _ = try await call(characteristic, "write", "WriteValue", [.bytes(value), ["type": "request"]])
    }

    /// Writes the values without response, in this order: returns when bluetoothd has queued them. Where the first one fails the
    /// later ones may have been written nevertheless.
    public func send(_ values: [[UInt8]], to characteristic: GATTCharacteristic) async throws(BlueZError) {
        // As many on the bus at once as hide its delay; bluetoothd answers before it has sent anything.
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

    /// The fast way for many writes without response. Throws `not-supported` where the characteristic or bluetoothd does not
    /// offer it, and `acquired-elsewhere`.
    public func acquireWriter(of characteristic: GATTCharacteristic) async throws(BlueZError) -> AcquiredWriter {
        let (socket, mtu) = try await acquire(characteristic, "AcquireWrite")
        return AcquiredWriter(socket, maximumLength: min(mtu - 3, 512))
    }

    /// Has the device notify, or indicate, the characteristic's value. Returns when the device has agreed.
    ///
    /// - Parameter overSocket: over a socket where there is one, which is faster than the bus. Not where the device may want a bond
    ///   that nobody will make: when the link ends while a socket waits for it, bluetoothd counts it for ever, gives out no other,
    ///   and crashes when it forgets the device (5.66).
    public func subscribe(
        to characteristic: GATTCharacteristic, overSocket: Bool = true
    ) async throws(BlueZError) -> Notifications {
        // bluetoothd hands out a socket for notifications only, and only where nobody else listens.
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
            // When the bus goes, the link's end is told elsewhere.
            var changes = changes.makeAsyncIterator()
            while let change = try? await changes.next() {
                if let value = change.changed["Value"]?.bytes { feed.yield(value) }
            }
            feed.finish()
        }
        if ended == nil { notifying[characteristic] = task } else { task.cancel() }
        return values
    }

    /// Ends a subscription, or gives a writer back.
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
    /// Of a link that goes on without us.
    func releaseAll() async {
        for characteristic in Set(notifying.keys).union(sockets.keys) { try? await release(characteristic) }
    }
}
