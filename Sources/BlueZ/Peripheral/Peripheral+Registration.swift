import DBus
import Logging

/// Registers the services and advertisements with bluetoothd, and registers them again after bluetoothd has lost them.
extension Peripheral {
    /// Starts the registration of all services and advertisements that are not registered. If bluetoothd refuses a registration, the
    /// next call of this method tries again.
    func register() {
        Task {
            do throws(BlueZError) { try await registerAll() } catch {
                logger.warning("bluetoothd refused the registration", metadata: ["reason": "\(error)"])
            }
        }
    }

    /// Waits until all earlier attempts have ended. Then registers all services and advertisements that are not registered. Throws
    /// the first error of bluetoothd.
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

    /// Advertises while `body` runs. Centrals can connect, and the advertising resumes after each connection. If bluetoothd or the
    /// adapter is not available, `body` runs nevertheless, and the advertising starts when both are available again.
    ///
    /// - Throws: the errors of `body`; ``BlueZError/Code/invalidLength`` if the data does not fit into 31 bytes;
    ///   ``BlueZError/Code/notPermitted`` if the adapter already has the maximum number of advertisements; other errors of the
    ///   registration. The errors ``BlueZError/Code/serviceUnavailable``, ``BlueZError/Code/adapterOff`` and
    ///   ``BlueZError/Code/noSuchObject`` are not thrown: they mean that bluetoothd or the adapter is not available.
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

    /// Removes the advertisement, even if the task is cancelled.
    private func remove(_ number: Int) async {
        await uncancelled { await self.unregister(number) }
    }

    private func unregister(_ number: Int) async {
        // A running attempt may still register this advertisement, so wait until that attempt has ended.
        _ = await registration.attempt?.value
        guard let entry = registration.advertisements.removeValue(forKey: number) else { return }
        if entry.isRegistered {
            await retract(BlueZName.advertisingManager, "UnregisterAdvertisement", entry.path)
        }
        await bus.unexport(entry.path)
    }

    /// Records that bluetoothd has removed the advertisement.
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

    /// Removes a registration from bluetoothd. This method only logs an error, because an error is normal after bluetoothd has stopped.
    func retract(_ interface: String, _ member: String, _ path: DBusObjectPath) async {
        do throws(BlueZError) { try await call(interface, member, [.objectPath(path)], "remove \(path)") } catch {
            logger.debug("the registration was not removed", metadata: ["reason": "\(error)"])
        }
    }
}

/// Runs `body` in a new task and waits until `body` has ended, so that a cancellation of the current task does not interrupt `body`.
func uncancelled(_ body: @escaping @Sendable () async -> Void) async { await Task { await body() }.value }

/// The services and advertisements that should be registered, and whether bluetoothd has registered them.
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
    /// The latest attempt to register. Each attempt starts after the previous attempt has ended.
    var attempt: Task<Result<Void, BlueZError>, Never>?

    mutating func newNumber() -> Int {
        lastNumber += 1
        return lastNumber
    }

    /// Marks the services and advertisements as not registered. Call this method when bluetoothd has stopped or the adapter was
    /// removed, because all registrations are then lost.
    mutating func reset() {
        isApplicationRegistered = false
        for number in advertisements.keys { advertisements[number]?.isRegistered = false }
    }
}
