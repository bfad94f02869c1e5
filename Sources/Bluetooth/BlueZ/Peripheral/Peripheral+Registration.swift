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

    /// Waits until all earlier changes have ended. Then registers all services and advertisements that are not registered. Throws the
    /// first error of bluetoothd.
    func registerAll() async throws(BlueZError) {
        try await registration.changes.add { await self.registerMissing() }.value.get()
    }

    private func registerMissing() async -> Result<Void, BlueZError> {
        do throws(BlueZError) {
            if registration.isOpen, !registration.isApplicationRegistered {
                try await call(
                    BlueZName.gattManager, "RegisterApplication", [.objectPath(application.root), [:]], "offer services"
                )
                registration.isApplicationRegistered = true
            }
            for (number, entry) in registration.advertisements where !entry.isRegistered {
                try await call(
                    BlueZName.advertisingManager, "RegisterAdvertisement", [.objectPath(entry.path), [:]], "advertise")
                registration.advertisements[number]?.isRegistered = true
            }
            return .success(())
        } catch { return .failure(error) }
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
        try await withAdvertisement(advertisement) { _ in try await body() }
    }

    /// Advertises while `body` runs, like `withAdvertisement` with a body that has no parameter. `body` can change the advertisement with
    /// ``ActiveAdvertisement/change(to:)``.
    public nonisolated func withAdvertisement<Result>(
        _ advertisement: Advertisement, _ body: (ActiveAdvertisement) async throws -> Result
    ) async throws -> Result {
        let number = try await add(advertisement)
        do {
            let result = try await body(ActiveAdvertisement(peripheral: self, number: number))
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
        try await export(advertisement, number, path)
        registration.advertisements[number] = Registration.Entry(path: path, advertisement: advertisement)
        do throws(BlueZError) { try await registerOrWait() } catch {
            await remove(number)
            throw error
        }
        return number
    }

    private func export(
        _ advertisement: Advertisement, _ number: Int, _ path: DBusObjectPath
    ) async throws(BlueZError) {
        let released = DBusMethod("Release") { _ in await self.released(number) }
        do throws(DBusError) {
            try await bus.export(path, [advertisement.interface([released])], onlyFor: BlueZName.service)
        } catch { throw BlueZError(error, "advertise over \(adapter.lastElement)") }
    }

    /// Registers all services and advertisements that are not registered. Ignores an error if bluetoothd or the adapter is not available.
    /// The registration can then succeed later.
    private func registerOrWait() async throws(BlueZError) {
        do throws(BlueZError) { try await registerAll() } catch {
            guard [.serviceUnavailable, .adapterOff, .noSuchObject].contains(error.code) else { throw error }
        }
    }

    func change(_ number: Int, to advertisement: Advertisement) async throws(BlueZError) {
        guard let entry = registration.advertisements[number] else {
            throw BlueZError(.noSuchObject, "the advertisement has ended")
        }
        let old = entry.advertisement
        // After a failed change, the old advertisement may not be registered either.
        guard advertisement != old || !entry.isRegistered else { return }
        try await replace(number, with: advertisement)
        do throws(BlueZError) { try await registerOrWait() } catch {
            try await replace(number, with: old)
            try await registerOrWait()
            throw error
        }
    }

    private func replace(_ number: Int, with advertisement: Advertisement) async throws(BlueZError) {
        try await registration.changes.add { await self.exchange(number, advertisement) }.value.get()
    }

    /// Replaces the advertisement. The new advertisement is not registered yet. This method does not change the properties of the
    /// registered advertisement, because bluetoothd does not report whether it accepts such a change.
    private func exchange(_ number: Int, _ advertisement: Advertisement) async -> Result<Void, BlueZError> {
        guard let path = await retractAdvertisement(number) else { return .success(()) }
        do throws(BlueZError) { try await export(advertisement, number, path) } catch { return .failure(error) }
        registration.advertisements[number]?.advertisement = advertisement
        return .success(())
    }

    /// Removes the advertisement, even if the task is cancelled.
    private func remove(_ number: Int) async {
        _ = await registration.changes.add {
            await self.discard(number)
            return .success(())
        }.value
    }

    private func discard(_ number: Int) async {
        _ = await retractAdvertisement(number)
        registration.advertisements[number] = nil
    }

    /// Removes the advertisement from bluetoothd and from the bus. Returns its path, or nil if it does not exist.
    private func retractAdvertisement(_ number: Int) async -> DBusObjectPath? {
        guard let entry = registration.advertisements[number] else { return nil }
        if entry.isRegistered {
            await retract(BlueZName.advertisingManager, "UnregisterAdvertisement", entry.path)
            registration.advertisements[number]?.isRegistered = false
        }
        await bus.unexport(entry.path)
        return entry.path
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

/// A running advertisement of a ``Peripheral``. It is valid only in the body of
/// `withAdvertisement`.
public struct ActiveAdvertisement: Sendable {
    let peripheral: Peripheral
    let number: Int

    /// Replaces the advertised data, the interval and the transmit power. If the adapter does not advertise during a connection, the
    /// change takes effect after the connection. If bluetoothd or the adapter is not available, the new data is advertised later.
    ///
    /// - Throws: the errors of `withAdvertisement`. The old data is then advertised again. ``BlueZError/Code/noSuchObject`` if the
    ///   advertisement has ended.
    public func change(to advertisement: Advertisement) async throws(BlueZError) {
        try await peripheral.change(number, to: advertisement)
    }
}

/// The services and advertisements that should be registered, and whether bluetoothd has registered them.
struct Registration {
    struct Entry {
        let path: DBusObjectPath
        var advertisement: Advertisement
        var isRegistered = false
    }

    /// Whether the services should be registered.
    var isOpen = false
    var isApplicationRegistered = false
    var advertisements: [Int: Entry] = [:]
    private var lastNumber = 0
    /// The queue that performs the changes of the registrations one after the other.
    var changes = ChangeQueue()

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
