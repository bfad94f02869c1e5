import DBus
import Logging

/// The methods that bluetoothd calls. The handlers start in the order of the calls. Each handler queues its event before it suspends.
/// Therefore the events have the same order as the calls.
extension Peripheral {
    /// The methods of `GattCharacteristic1` (BlueZ, `doc/gatt-api.txt`).
    nonisolated func methods(of characteristic: LocalApplication.Characteristic) -> [DBusMethod] {
        let attribute = characteristic.attribute
        let options = DBusArgument("options", .properties)
        let socket = [DBusArgument("fd", .unixFileDescriptor), DBusArgument("mtu", .uint16)]
        var methods = [
            DBusMethod("ReadValue", takes: [options], returns: [DBusArgument("value", .bytes)]) {
                try await self.read(attribute, $0)
            },
            DBusMethod("WriteValue", takes: [DBusArgument("value", .bytes), options]) {
                try await self.write(attribute, $0)
            },
            DBusMethod("StartNotify") { _ in await self.notifications(of: attribute, on: true) },
            DBusMethod("StopNotify") { _ in await self.notifications(of: attribute, on: false) },
            // bluetoothd calls `Confirm` when a central has confirmed an indication. This program ignores the call, because the call
            // does not identify the central.
            DBusMethod("Confirm") { _ in [] },
        ]
        if characteristic.declaration.sockets.contains(.write) {
            methods.append(
                DBusMethod("AcquireWrite", takes: [options], returns: socket) {
                    try await self.acquireWrite(attribute, $0)
                })
        }
        if characteristic.declaration.sockets.contains(.notify) {
            methods.append(
                DBusMethod("AcquireNotify", takes: [options], returns: socket) {
                    try await self.acquireNotify(attribute, $0)
                })
        }
        return methods
    }

    private func read(_ attribute: LocalAttribute, _ call: DBusIncomingCall) async throws(DBusError) -> [DBusValue] {
        let request = try Request(call.arguments.require(0, \.properties))
        let connection = try connection(of: request.device)
        let result = await withCheckedContinuation {
            emit(.read(ReadRequest(connection, attribute, offset: request.offset, PeripheralAnswer($0))))
        }
        switch result {
        case .success(let value): return [.bytes(value)]
        case .failure(let error): throw error.asDBusError
        }
    }

    private func write(_ attribute: LocalAttribute, _ call: DBusIncomingCall) async throws(DBusError) -> [DBusValue] {
        let value = try call.arguments.require(0, \.bytes)
        let request = try Request(call.arguments.require(1, \.properties))
        let connection = try connection(of: request.device)
        guard call.wantsReply else {
            emit(.write(WriteRequest(connection, attribute, offset: request.offset, value, mtu: request.mtu, nil)))
            return []
        }
        let result = await withCheckedContinuation {
            emit(
                .write(
                    WriteRequest(
                        connection, attribute, offset: request.offset, value, mtu: request.mtu, PeripheralAnswer($0))))
        }
        if case .failure(let error) = result { throw error.asDBusError }
        return []
    }

    @discardableResult
    func notifications(of attribute: LocalAttribute, on: Bool) -> [DBusValue] {
        emit(table.notifications(of: attribute, on: on))
        return []
    }

    /// Returns the connection of a device that has sent a request. Adds a connection to the table if the device is not in the table.
    private func connection(of device: DBusObjectPath) throws(DBusError) -> PeripheralConnection {
        if let connection = table.use(by: device) { return connection }
        // There are two reasons for a request from a device that is not in the table. First: bluetoothd may read the first packet of a
        // link before it gets the kernel's connection event. Second: the request may be a late request of a link that ended more than
        // `linger` ago. Add the connection in both cases. If the device is not connected, `check` then ends this connection.
        emit(table.connected(device, openedBy: opener))
        Task { await check(device) }
        guard let connection = table.use(by: device) else { throw AttributeError.unlikely.asDBusError }
        return connection
    }

    private func check(_ device: DBusObjectPath) async {
        let remote = DBusRemoteObject(bus, BlueZName.service, device)
        let isConnected = try? await remote.property(BlueZName.device, "Connected").boolean
        if isConnected != true { ended(device) }
    }

    // MARK: - Sockets

    private func acquireWrite(
        _ attribute: LocalAttribute, _ call: DBusIncomingCall
    ) async throws(DBusError) -> [DBusValue] {
        let request = try Request(call.arguments.require(0, \.properties))
        _ = try connection(of: request.device)
        let (socket, theirs) = try PacketSocket.pair(on: executor)
        readers.append(
            Task {
                do throws(DBusError) {
                    for try await packet in socket.packets {
                        guard let device = table.newest, let connection = table.use(by: device) else { continue }
                        emit(.write(WriteRequest(connection, attribute, offset: 0, packet, nil)))
                    }
                } catch {
                    logger.debug("a socket for writes failed", metadata: ["reason": "\(error)"])
                }
            })
        return [.unixFileDescriptor(theirs), .uint16(request.acquiredMTU)]
    }

    private func acquireNotify(
        _ attribute: LocalAttribute, _ call: DBusIncomingCall
    ) async throws(DBusError) -> [DBusValue] {
        let request = try Request(call.arguments.require(0, \.properties))
        _ = try connection(of: request.device)
        let (socket, theirs) = try PacketSocket.pair(on: executor)
        notifySockets[attribute] = socket
        notifications(of: attribute, on: true)
        readers.append(
            Task {
                // bluetoothd sends no packets through this socket. The loop only waits until the socket is closed.
                do throws(DBusError) { for try await _ in socket.packets {} } catch {
                    logger.debug("a socket for notifications failed", metadata: ["reason": "\(error)"])
                }
                guard notifySockets[attribute] === socket else { return }
                notifySockets[attribute] = nil
                notifications(of: attribute, on: false)
            })
        return [.unixFileDescriptor(theirs), .uint16(request.acquiredMTU)]
    }
}

/// The options of a method call: the device, the offset and the MTU.
private struct Request {
    let device: DBusObjectPath
    let offset: Int
    let mtu: Int?
    /// The MTU that this program returns together with a socket, in bytes. If the options do not contain the MTU, the value is 23,
    /// the minimum.
    var acquiredMTU: UInt16 { UInt16(clamping: mtu ?? 23) }

    /// Reads the options. Throws `unexpectedValue` if the device is missing.
    init(_ options: [String: DBusValue]) throws(DBusError) {
        guard let device = options["device"]?.objectPath else {
            throw DBusError(.unexpectedValue, "the options do not contain the device")
        }
        self.device = device
        offset = options["offset"]?.uint16.map { Int($0) } ?? 0
        mtu = options["mtu"]?.uint16.map { Int($0) }
    }
}
