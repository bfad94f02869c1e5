import DBus
import Logging

/// Brings what bluetoothd offers to what is wanted, each time it may have changed.
extension Peripheral {
    /// Registers what is not. What fails is tried again when something changes.
    func register() {
        Task {
            do throws(BlueZError) { try await registerAll() } catch {
                logger.warning("bluetoothd did not take it", metadata: ["reason": "\(error)"])
            }
        }
    }

    /// One attempt after the other. Throws what bluetoothd answers to the first that it does not take.
    func registerAll() async throws(BlueZError) {
        let previous = registration.attempt
        let attempt = Task { () -> Result<Void, BlueZError> in
            _ = await previous?.value
            do throws(BlueZError) { return .success(try await self.attempt()) } catch { return .failure(error) }
        }
        registration.attempt = attempt
        try await attempt.value.get()
    }

    private func attempt() async throws(BlueZError) {
        if registration.isOpen, !registration.isApplicationRegistered {
            try await call(
                BlueZName.gattManager, "RegisterApplication", [.objectPath(application.root), [:]], "offer services")
            registration.isApplicationRegistered = true
        }
        for (number, entry) in registration.advertisements where !entry.isRegistered {
            try await call(
                BlueZName.advertisingManager, "RegisterAdvertisement", [.objectPath(entry.path), [:]], "advertise")
            registration.advertisements[number]?.isRegistered = true
        }
    }

    /// Advertises while `body` runs: connectable, and again after each connection.
    ///
    /// It begins as soon as bluetoothd and the adapter are there.
    ///
    /// - Throws: what `body` throws; `invalid-length` for more than 31 bytes hold, `not-permitted` when the adapter advertises
    ///   for too many already, and whatever else waiting would not mend.
    public nonisolated func withAdvertisement<Result>(
        _ advertisement: Advertisement, _ body: () async throws -> Result
    ) async throws -> Result {
        let number = try await add(advertisement)
        do {
            let result = try await body()
            await remove(number)
            return result
        } catch {
            await remove(number)
            throw error
        }
    }

    private func add(_ advertisement: Advertisement) async throws(BlueZError) -> Int {
        let number = registration.newNumber()
        let path = application.root.appending("advertisement\(number)")
        let released = DBusMethod("Release") { _ in await self.released(number) }
        do throws(DBusError) {
            try await bus.export(path, [advertisement.interface([released])], onlyFor: BlueZName.service)
        } catch { throw BlueZError(error, "advertise over \(adapter.lastElement)") }
        registration.advertisements[number] = Registration.Entry(path: path)
        do throws(BlueZError) { try await registerAll() } catch {
            guard [.serviceUnavailable, .adapterOff, .noSuchObject].contains(error.code) else {
                await remove(number)
                throw error
            }
        }
        return number
    }

    /// Also in a task that was cancelled.
    private func remove(_ number: Int) async {
        await uncancelled { await self.unregister(number) }
    }

    private func unregister(_ number: Int) async {
        // An attempt may be about to register it.
        _ = await registration.attempt?.value
        guard let entry = registration.advertisements.removeValue(forKey: number) else { return }
        if entry.isRegistered {
            await retract(BlueZName.advertisingManager, "UnregisterAdvertisement", entry.path)
        }
        await bus.unexport(entry.path)
    }

    /// bluetoothd has given the advertisement up.
    private func released(_ number: Int) -> [DBusValue] {
        registration.advertisements[number]?.isRegistered = false
        return []
    }

    func call(
        _ interface: String, _ member: String, _ arguments: [DBusValue], _ operation: String
    ) async throws(BlueZError) {
        do throws(DBusError) {
            _ = try await bus.call(BlueZName.service, adapter, interface, member, arguments, timeout: .seconds(10))
        } catch { throw BlueZError(error, "\(operation) over \(adapter.lastElement)") }
    }

    /// A bluetoothd that is gone has forgotten it anyway.
    func retract(_ interface: String, _ member: String, _ path: DBusObjectPath) async {
        do throws(BlueZError) { try await call(interface, member, [.objectPath(path)], "take \(path) back") } catch {
            logger.debug("not taken back", metadata: ["reason": "\(error)"])
        }
    }
}

/// Runs `body` to its end even where this task was cancelled.
func uncancelled(_ body: @escaping @Sendable () async -> Void) async { await Task { await body() }.value }
