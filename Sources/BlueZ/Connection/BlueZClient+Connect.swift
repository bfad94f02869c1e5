import DBus
import Logging

/// Runs the connection machine: performs its actions and passes events to it.
extension BlueZClient {
    /// A machine in the phase `ready`, with its device and the resources of the attempt.
    struct Established: Sendable {
        var machine: ConnectionMachine
        var device: DBusObjectPath
        var start: ContinuousClock.Instant
        var attempt: ConnectionAttempt
    }

    func establish(
        _ request: ConnectionRequest, _ responder: PairingResponder?
    ) async throws(BlueZError) -> Established {
        if let end { throw end }
        var request = request
        request.waitsForAdapter = hasBeenUsable(request.adapter)
        let attempt = ConnectionAttempt(self, request, responder)
        let machine = ConnectionMachine(request)
        let outcome = await withTaskGroup(of: Void.self) { group in
            let outcome = await run(machine, attempt, &group)
            group.cancelAll()
            return outcome
        }
        await attempt.cleanUp()
        if case .failure = outcome { await attempt.close() }
        return try outcome.get()
    }

    private func run(
        _ machine: ConnectionMachine, _ attempt: ConnectionAttempt, _ group: inout TaskGroup<Void>
    ) async -> Result<Established, BlueZError> {
        var machine = machine
        let start = ContinuousClock.now
        var armed: Duration?
        let (mailbox, post) = AsyncStream.makeStream(of: ConnectionMachine.Event.self)
        let changes = changes()
        group.addTask { for await _ in changes { post.yield(.treeChanged) } }
        post.yield(.started)

        var events = mailbox.makeAsyncIterator()
        while true {
            // The event stream of a cancelled task ends.
            let event = await events.next(isolation: self) ?? .cancelled
            for action in machine.handle(event, tree, at: start.duration(to: .now)) {
                logger.trace("connecting", metadata: ["event": "\(event)", "action": "\(action)"])
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
                    return .success(Established(machine: machine, device: device, start: start, attempt: attempt))
                case .fail(let error): return .failure(error)
                }
            }
            // A timer that fires early checks the deadline again.
            guard let deadline = machine.deadline,
                armed.map({ deadline < $0 || $0 <= start.duration(to: .now) }) ?? true
            else { continue }
            armed = deadline
            group.addTask {
                if (try? await ContinuousClock().sleep(until: start + deadline)) != nil { post.yield(.deadlinePassed) }
            }
        }
    }

    /// Removes a device from bluetoothd: its bond, its cached attributes, and its link if there is one. Does nothing if
    /// bluetoothd does not know the device. Throws `bluetoothd-unavailable`, `no-such-adapter`, `adapter-off`.
    public func forget(_ address: BluetoothAddress, over adapter: String? = nil) async throws(BlueZError) {
        let adapter = try tree.usableAdapter(adapter).path
        guard let device = tree.devices(of: adapter).first(where: { $0.address == address }) else { return }
        _ = try await call(
            "remove \(address)", adapter, BlueZName.adapter, "RemoveDevice", [.objectPath(device.path)])
    }

    // MARK: - Calls

    func call(
        _ operation: String, _ path: DBusObjectPath, _ interface: String, _ member: String,
        _ arguments: [DBusValue] = [], timeout: Duration? = .seconds(10)
    ) async throws(BlueZError) -> [DBusValue] {
        do throws(DBusError) {
            return try await bus.call(BlueZName.service, path, interface, member, arguments, timeout: timeout)
        } catch {
            throw BlueZError(error, operation)
        }
    }

    /// Ends a link and waits until it is down.
    func disconnect(_ device: DBusObjectPath) async throws(BlueZError) {
        let endedLinks = tree.endedLinks(of: device)
        _ = try await call("disconnect", device, BlueZName.device, "Disconnect", timeout: .seconds(5))
        await waitForDisconnect(of: device, since: endedLinks)
    }

    /// Waits until bluetoothd reports the end of the link. bluetoothd answers `Disconnect` before that (5.66,
    /// `device_remove_connection`). Without this wait, later code would take this program's own link for another program's
    /// link.
    private func waitForDisconnect(of device: DBusObjectPath, since endedLinks: Int) async {
        let changes = changes()
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                for await _ in changes {
                    guard await self.tree.isConnected(device, since: endedLinks) else { return }
                }
            }
            // The report normally arrives within milliseconds.
            group.addTask { try? await Task.sleep(for: .seconds(1)) }
            await group.next()
            group.cancelAll()
        }
    }
}
