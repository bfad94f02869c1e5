import DBus
import Logging

/// Registers the wanted services and advertisements at bluetoothd, each time the state may have changed.
extension Peripheral {
    /// Registers all missing services and advertisements. A failed registration is repeated at the next change.
    func register() {
        Task {
            do throws(BlueZError) { try await registerAll() } catch {
                logger.warning("bluetoothd refused the registration", metadata: ["reason": "\(error)"])
            }
        }
    }

    /// Registers them one after the other. Throws the error of the first registration that bluetoothd refuses.
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

    /// Advertises while `body` runs. The advertisement is connectable and resumes after each connection.
    ///
    /// It starts as soon as bluetoothd and the adapter are available.
    ///
    /// - Throws: the errors of `body`; ``BlueZError/Code/invalidLength`` if the data does not fit into 31 bytes,
    ///   ``BlueZError/Code/notPermitted`` if the adapter already has the maximum number of advertisements, and all other errors
    ///   that a later attempt cannot fix.
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

    /// Removes the advertisement, also in a cancelled task.
    private func remove(_ number: Int) async {
        await uncancelled { await self.unregister(number) }
    }

    private func unregister(_ number: Int) async {
        // A running attempt may be about to register it.
        _ = await registration.attempt?.value
        guard let entry = registration.advertisements.removeValue(forKey: number) else { return }
        if entry.isRegistered {
            await retract(BlueZName.advertisingManager, "UnregisterAdvertisement", entry.path)
        }
        await bus.unexport(entry.path)
    }

    /// bluetoothd has released the advertisement.
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

    /// Removes a registration. If bluetoothd has stopped, the registration is already gone.
    func retract(_ interface: String, _ member: String, _ path: DBusObjectPath) async {
        do throws(BlueZError) { try await call(interface, member, [.objectPath(path)], "remove \(path)") } catch {
            logger.debug("the registration was not removed", metadata: ["reason": "\(error)"])
        }
    }
}

/// Runs `body` to its end, also if this task was cancelled.
func uncancelled(_ body: @escaping @Sendable () async -> Void) async { await Task { await body() }.value }

/// The registered and the wanted state of the services and advertisements at bluetoothd.
struct Registration {
    struct Entry {
        let path: DBusObjectPath
        var isRegistered = false
    }

    /// Whether the services should be registered.
    var isOpen = false
    var isApplicationRegistered = false
    var advertisements: [Int: Entry] = [:]
    private var lastNumber = 0
    /// The current attempt. Attempts run one after the other.
    var attempt: Task<Result<Void, BlueZError>, Never>?

    mutating func newNumber() -> Int {
        lastNumber += 1
        return lastNumber
    }

    /// Clears the registered state. Call this method when bluetoothd restarts or the adapter is removed, because no registration remains
    /// then.
    mutating func reset() {
        isApplicationRegistered = false
        for number in advertisements.keys { advertisements[number]?.isRegistered = false }
    }
}
