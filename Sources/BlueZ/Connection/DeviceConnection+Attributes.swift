import DBus

/// Operations on characteristics. If the device refuses one, it throws `not-paired`, `not-permitted`, `not-supported`,
/// `invalid-length` or `attribute-error`. If the link ends, it throws the error that ended the link.
extension DeviceConnection {
    /// Reads the whole value, with as many read requests as necessary.
    public func read(_ characteristic: GATTCharacteristic) async throws(BlueZError) -> [UInt8] {
        let reply = try await call(characteristic, "read", "ReadValue", [[:]])
        do throws(DBusError) { return try reply.require(0, \.bytes) } catch { throw BlueZError(error, "read") }
    }

    /// Writes a value and waits for the device's response. A value longer than MTU − 3 bytes is sent as a long write.
    /// Throws `in-progress` if another write to this characteristic is pending, and `acquired-elsewhere`.
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

    /// Acquires a socket for many fast writes without response. Throws `not-supported` if the characteristic or bluetoothd
    /// does not support it, and `acquired-elsewhere`.
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
