import DBus

extension BlueZClient {
    /// Connects, lends the connection to `body`, and ends it on every way out.
    ///
    /// When `body` returns or throws, this waits until the link is down, which takes about 2 s: bluetoothd gives its profiles
    /// that time. When the task was cancelled it is asked for and not waited for. A program that is killed leaves its link behind,
    /// which bluetoothd then holds until somebody ends it: see `ConnectionRequest.takesOver`.
    ///
    /// - Parameter responder: answers what the device asks while it is paired; nil: this program takes no part in that.
    /// - Throws: what `body` throws; `bluetoothd-unavailable`, `no-such-adapter`, `adapter-off`, `no-such-device`,
    ///   `ambiguous-device`, `timed-out`, `connection-failed`, `cancelled`.
    public nonisolated func withConnection<Result>(
        _ request: ConnectionRequest, pairing responder: PairingResponder? = nil,
        _ body: (DeviceConnection) async throws -> Result
    ) async throws -> Result {
        guard let responder else { return try await withLink(request, body) }
        let agent = await pairingAgent()
        let (ticket, registration) = await agent.add(responder, for: request.target)
        do {
            try registration.get()
            let result = try await withLink(request, body)
            await agent.remove(ticket)
            return result
        } catch {
            await agent.remove(ticket)
            throw error
        }
    }

    private nonisolated func withLink<Result>(
        _ request: ConnectionRequest, _ body: (DeviceConnection) async throws -> Result
    ) async throws -> Result {
        let (connection, watcher) = try await connect(request)
        do {
            let result = try await body(connection)
            watcher.cancel()
            await end(connection)
            return result
        } catch {
            watcher.cancel()
            await end(connection)
            throw error
        }
    }

    private func connect(
        _ request: ConnectionRequest
    ) async throws(BlueZError) -> (DeviceConnection, Task<Void, Never>) {
        let established = try await establish(request)
        guard let device = tree.devices[established.device] else {
            throw BlueZError(.disconnected, "the device has disconnected")
        }
        reasons[device.path] = nil
        let connection = DeviceConnection(
            self, device, tree.table(of: device.path), mtu: tree.mtu(of: device.path),
            isShared: established.machine.isShared)
        connections[device.path] = connection
        return (connection, Task { await self.watch(connection, established) })
    }

    /// Tells the machine what happens until it says that the link is over.
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
                error: BlueZError(.pairingFailed, "the device ended the link in the middle of the pairing"))
        }
        let told = DisconnectReason(error)
        return ConnectionEnd(reason: told == .unknown ? reasons[path] ?? .unknown : told, error: error)
    }

    func pairingAsked(_ device: DBusObjectPath, wasAnswered: Bool) async {
        await connections[device]?.askedToPair(wasAnswered: wasAnswered)
    }

    private func end(_ connection: DeviceConnection) async {
        connections[connection.device.path] = nil
        let isOver = await connection.ended != nil
        let isCancelled = Task.isCancelled
        // A task that was cancelled cannot call; another can.
        let ending = Task {
            if !isOver, connection.isShared { await connection.releaseAll() }
            await connection.finish(
                ConnectionEnd(
                    reason: .requested, error: BlueZError(.disconnected, "the connection was given back")))
            guard !isOver, !connection.isShared else { return }
            if isCancelled {
                await self.letGo(connection.device.path)
            } else {
                try? await self.disconnect(connection.device.path)
            }
        }
        await ending.value
    }
}
