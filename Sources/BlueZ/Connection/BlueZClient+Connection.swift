import DBus

extension BlueZClient {
    /// Connects, runs `body` with the connection, and always ends the connection: on return, error or cancellation.
    ///
    /// When `body` returns or throws, the method waits until the link is down. This takes about 2 s, because bluetoothd
    /// gives its profiles that time. After a cancellation, it requests the end but does not wait. If the program is killed,
    /// bluetoothd keeps the link until a program ends it: see `LinkAccount` and `ConnectionRequest.takesOver`.
    ///
    /// - Parameter responder: answers the device's pairing requests. Nil: this program does not take part in pairing, and
    ///   agents of other programs can answer. The agent is registered only after the device is found.
    ///
    /// - Throws: the errors of `body`; `bluetoothd-unavailable`, `no-such-adapter`, `adapter-off`, `no-such-device`,
    ///   `ambiguous-device`, `timed-out`, `connection-failed`, `cancelled`.
    public nonisolated func withConnection<Result>(
        _ request: ConnectionRequest, pairing responder: PairingResponder? = nil,
        _ body: (DeviceConnection) async throws -> Result
    ) async throws -> Result {
        let (connection, attempt, watcher) = try await connect(request, responder)
        do {
            let result = try await body(connection)
            watcher.cancel()
            await end(connection, attempt)
            return result
        } catch {
            watcher.cancel()
            await end(connection, attempt)
            throw error
        }
    }

    private func connect(
        _ request: ConnectionRequest, _ responder: PairingResponder?
    ) async throws(BlueZError) -> (DeviceConnection, ConnectionAttempt, watcher: Task<Void, Never>) {
        let established = try await establish(request, responder)
        guard let device = tree.devices[established.device] else {
            await established.attempt.close()
            throw BlueZError(.disconnected, "the device disconnected")
        }
        reasons[device.path] = nil
        let connection = DeviceConnection(
            self, device, tree.table(of: device.path), mtu: tree.mtu(of: device.path),
            isShared: established.machine.isShared)
        connections[device.path] = connection
        return (connection, established.attempt, Task { await self.watch(connection, established) })
    }

    /// Passes events to the machine until the link has ended.
    private func watch(_ connection: DeviceConnection, _ established: Established) async {
        var machine = established.machine
        for await _ in changes() {
            let actions = machine.handle(.treeChanged, tree, at: established.start.duration(to: .now))
            guard case .fail(let error) = actions.last else { continue }
            return await connection.finish(await end(of: connection, error))
        }
    }

    private func end(of connection: DeviceConnection, _ error: BlueZError) async -> ConnectionEnd {
        let path = connection.device.path
        if error.code == .disconnected, await connection.wasAskedToPair, tree.devices[path]?.isPaired != true {
            return ConnectionEnd(
                reason: .authentication,
                error: BlueZError(.pairingFailed, "the device disconnected during pairing"))
        }
        let reported = DisconnectReason(error)
        return ConnectionEnd(reason: reported == .unknown ? reasons[path] ?? .unknown : reported, error: error)
    }

    func pairingAsked(_ device: DBusObjectPath, wasAnswered: Bool) async {
        await connections[device]?.askedToPair(wasAnswered: wasAnswered)
    }

    private func end(_ connection: DeviceConnection, _ attempt: ConnectionAttempt) async {
        connections[connection.device.path] = nil
        let isOver = await connection.ended != nil
        let isCancelled = Task.isCancelled
        // A cancelled task cannot make calls; a new task can.
        let ending = Task {
            if !isOver, connection.isShared { await connection.releaseAll() }
            await connection.finish(
                ConnectionEnd(
                    reason: .requested, error: BlueZError(.disconnected, "this program closed the connection")))
            if !isOver, !connection.isShared {
                if isCancelled {
                    await self.bus.releaseLink(connection.device.path)
                } else {
                    try? await self.disconnect(connection.device.path)
                }
            }
            await attempt.close()
        }
        await ending.value
    }
}
