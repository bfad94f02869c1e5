import DBus
import DescriptorIO
import Logging

extension BlueZClient {
    /// Connects to a device and runs `body` with the connection. The connection always ends when `body` has returned or has thrown
    /// an error.
    ///
    /// After `body`, this method ends the link and waits until the link is down. The wait takes about 2 s, because bluetoothd first
    /// gives its profiles time to stop. If the task is cancelled, this method requests the end of the link, but does not wait. If the
    /// connection shares a link of another program (``ConnectionRequest/takesOver`` is false), this method does not end the link.
    ///
    /// If this program is killed, bluetoothd keeps the link. ``LinkAccount`` describes how another program can end the link.
    ///
    /// - Parameter responder: answers the pairing requests of this device. Nil: the responder of ``withPairing(over:_:_:)`` answers, if
    ///   that method is running for the adapter. Otherwise only agents of other programs can answer.
    ///
    /// - Throws: the errors of `body` and of ``ConnectionRequest/admits``; ``BlueZError/Code/busUnavailable``,
    ///   ``BlueZError/Code/serviceUnavailable``, ``BlueZError/Code/noSuchAdapter``, ``BlueZError/Code/adapterOff``,
    ///   ``BlueZError/Code/noSuchDevice``, ``BlueZError/Code/ambiguousDevice``, ``BlueZError/Code/timedOut``,
    ///   ``BlueZError/Code/connectionFailed``, ``BlueZError/Code/disconnected``, ``BlueZError/Code/cancelled``.
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
            isShared: established.machine.isShared, over: tree.adapters[device.adapter]?.address,
            openings.removeValue(forKey: device.path) ?? .init(wasPaired: device.isPaired))
        connections[device.path] = connection
        logger.debug(
            "connected", metadata: ["object": "\(device.path)", "mtu": "\(connection.mtu)"])
        return (connection, established.attempt, Task { await self.watch(connection, established) })
    }

    /// Passes the changes of bluetoothd's objects to the connection machine until the link has ended. Then reports the end of the
    /// link to `connection`.
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

    func pairingAsked(_ device: DBusObjectPath, wasAnswered: Bool, authenticates: Bool) async {
        openings[device]?.hasAuthenticated = wasAnswered && authenticates
        await connections[device]?.askedToPair(wasAnswered: wasAnswered, authenticates: authenticates)
    }

    /// Records whether a device has a bond before a call of `Connect`.
    func opens(_ device: DBusObjectPath) { openings[device] = .init(wasPaired: tree.devices[device]?.isPaired == true) }

    /// Removes the record of ``opens(_:)`` after an attempt that opened no connection.
    func endOpening(_ device: DBusObjectPath) { openings[device] = nil }

    private func end(_ connection: DeviceConnection, _ attempt: ConnectionAttempt) async {
        connections[connection.device.path] = nil
        let isOver = await connection.ended != nil
        let isCancelled = Task.isCancelled
        // The current task may be cancelled, and calls fail in a cancelled task. Therefore a new task ends the connection.
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

/// Runs the connection machine: passes events to the machine and performs the actions that the machine returns.
extension BlueZClient {
    /// The result of a successful attempt: the connection machine in the phase `ready`, the device, and the resources of the attempt.
    private struct Established: Sendable {
        var machine: ConnectionMachine
        var device: DBusObjectPath
        var start: ContinuousClock.Instant
        var attempt: ConnectionAttempt
    }

    private func establish(
        _ request: ConnectionRequest, _ responder: PairingResponder?
    ) async throws(BlueZError) -> Established {
        if let end { throw end }
        var request = request
        request.waitsForAdapter = hasBeenUsable(request.adapter)
        let attempt = ConnectionAttempt(self, request, responder)
        let machine = ConnectionMachine(request)
        let outcome = await withDiscardingTaskGroup { group in
            let outcome = await run(machine, attempt, &group)
            group.cancelAll()
            return outcome
        }
        await attempt.cleanUp()
        if case .failure = outcome { await attempt.close() }
        return try outcome.get()
    }

    private func run(
        _ machine: ConnectionMachine, _ attempt: ConnectionAttempt, _ group: inout DiscardingTaskGroup
    ) async -> Result<Established, BlueZError> {
        var machine = machine
        var mailbox = Mailbox(ContinuousClock(), wake: ConnectionMachine.Event.deadlinePassed)
        let post = mailbox.post
        let changes = changes()
        group.addTask { for await _ in changes { post.yield(.treeChanged) } }
        post.yield(.started)

        var events = mailbox.messages.makeAsyncIterator()
        while true {
            // If this task is cancelled, the stream ends and returns nil.
            let event = await events.next(isolation: self) ?? .cancelled
            for action in machine.handle(event, tree, at: mailbox.now) {
                logger.trace(
                    "connecting",
                    metadata: ["target": "\(machine.request.target)", "event": "\(event)", "action": "\(action)"])
                switch action {
                case .call(let call):
                    let isShared = machine.isShared
                    group.addTask {
                        do throws(BlueZError) {
                            try await attempt.carryOut(call, isShared: isShared)
                            post.yield(.finished(call))
                        } catch {
                            post.yield(.failed(call, error))
                        }
                    }
                case .stopScan: await attempt.stopScan()
                case .yieldTurn: await attempt.yieldTurn()
                case .releaseLink(let device): await attempt.releaseLink(device)
                case .own(let device): await attempt.own(device)
                case .ready(let device):
                    return .success(
                        Established(machine: machine, device: device, start: mailbox.start, attempt: attempt))
                case .fail(let error): return .failure(error)
                }
            }
            mailbox.arm(machine.deadline, in: &group)
        }
    }

    /// Ends a link and waits until the link is down.
    func disconnect(_ device: DBusObjectPath) async throws(BlueZError) {
        let endedLinks = tree.endedLinks(of: device)
        _ = try await call("disconnect", device, BlueZName.device, "Disconnect", timeout: .seconds(5))
        await waitForDisconnect(of: device, since: endedLinks)
    }

    /// Waits until bluetoothd reports the end of the link, for at most 1 s. bluetoothd replies to `Disconnect` before this report
    /// (BlueZ 5.66, `device_remove_connection`). Without this wait, the next connection attempt would treat the old link as a link
    /// of another program.
    private func waitForDisconnect(of device: DBusObjectPath, since endedLinks: Int) async {
        let changes = changes()
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                for await _ in changes {
                    guard await self.tree.isConnected(device, since: endedLinks) else { return }
                }
            }
            // The report normally arrives within milliseconds, so 1 s is enough.
            group.addTask { try? await Task.sleep(for: .seconds(1)) }
            await group.next()
            group.cancelAll()
        }
    }
}
