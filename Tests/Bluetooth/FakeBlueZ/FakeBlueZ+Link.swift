import BlueZ
import DBus
import Glibc
import OTASimulator
import OTAUpdate

/// The D-Bus object of the peripheral, and the link to it.
extension FakeBlueZ {
    func deviceInterface(rssi: Int16?) -> DBusInterface {
        var properties = [
            DBusProperty("Adapter", .objectPath(Self.adapter)), DBusProperty("Address", .string(Self.address)),
            DBusProperty("AddressType", "public"), DBusProperty("Name", .string(name)),
            DBusProperty("Alias", .string(name)),
            DBusProperty("Paired", .boolean(isPaired)), DBusProperty("Connected", .boolean(link != nil)),
            DBusProperty("ServicesResolved", false),
            DBusProperty("UUIDs", .strings([BluetoothUUID(peripheral.dataChannel.service).description])),
        ]
        if let rssi { properties.append(DBusProperty("RSSI", .int16(rssi))) }
        return DBusInterface(
            BlueZName.device,
            methods: [
                method("Connect") { fake, _ in try await fake.connect() },
                method("Disconnect") { fake, _ in await fake.disconnect() },
                method("Pair") { fake, _ in try await fake.pair() },
            ], properties: properties)
    }

    private func connect() async throws -> [DBusValue] {
        connects += 1
        guard isPowered else { throw DBusError.bluez("Failed", "le-connection-adapter-not-powered") }
        guard link == nil else { return [] }
        guard connecting == nil else { throw DBusError.bluez("InProgress", "Operation already in progress") }
        if !connectErrors.isEmpty { throw connectErrors.removeFirst() }
        // Like bluetoothd, it listens for the device without a time limit.
        try await withCheckedThrowingContinuation { continuation in
            connecting = continuation
            Task { await listen() }
        }
        return []
    }

    private func listen() async {
        while connecting != nil {
            // The simulated device has no event for the start of its advertising, so it is polled.
            try? await Task.sleep(for: .milliseconds(5))
            guard let caller = connecting, connection != nil, unreportedEnds == 0, isAdvertising else { continue }
            lastLink += 1
            guard peripheral.connect(lastLink, valueLength: 244, at: now) else { continue }
            let number = lastLink
            link = number
            connecting = nil
            await update(Self.device, BlueZName.device, ["Connected": true])
            Task { await resolve(number) }
            caller.resume()
        }
    }

    private func resolve(_ number: UInt16) async {
        // The simulated duration of the service discovery.
        try? await Task.sleep(for: .milliseconds(20))
        guard link == number else { return }
        if requestsSecurity, !isPaired {
            isPaired = true
            await update(Self.device, BlueZName.device, ["Paired": true])
        }
        if let nameInService {
            await update(
                Self.device, BlueZName.device, ["Name": .string(nameInService), "Alias": .string(nameInService)])
        }
        if earlyBreaks > 0 {
            earlyBreaks -= 1
            return drop(reports: true)
        }
        if staleTables > 0 {
            staleTables -= 1
        } else {
            cacheTable()
            await exportTable()
        }
        guard link == number else { return }
        await update(Self.device, BlueZName.device, ["ServicesResolved": true])
    }

    private func disconnect() async -> [DBusValue] {
        if let connecting {
            self.connecting = nil
            connecting.resume(throwing: DBusError.bluez("Failed", "br-connection-canceled"))
        }
        if let link {
            // The simulated duration of a disconnection.
            try? await Task.sleep(for: .milliseconds(50))
            if self.link == link { drop(reports: true) }
        }
        return []
    }

    /// Ends the link at once.
    package func cut() { drop(reports: true) }

    package func setInRange(_ isInRange: Bool) {
        self.isInRange = isInRange
        if !isInRange { drop(reports: true) }
    }

    /// Ends the link and closes its sockets. `reports`: whether the bus gets the change.
    func drop(reports: Bool) {
        for descriptor in Array(writeEnds.values) + Array(notifyEnds.values) { _ = close(descriptor) }
        writeEnds = [:]
        notifyEnds = [:]
        busy = []
        notifying = []
        guard let link else { return }
        self.link = nil
        peripheral.disconnect(link, at: now)
        guard reports else { return }
        unreportedEnds += 1
        Task {
            // The simulated delay of a late report, as `endsAreLate` describes it.
            if endsAreLate { try? await Task.sleep(for: .milliseconds(300)) }
            await update(Self.device, BlueZName.device, ["ServicesResolved": false])
            await update(Self.device, BlueZName.device, ["Connected": false])
            unreportedEnds -= 1
        }
    }

    // MARK: - Notifications

    enum Notification: Sendable {
        case value(UInt16, Channel, [UInt8])
        case restart
    }

    func passOn(_ notification: Notification) async {
        switch notification {
        case .restart:
            moveAttributes()
            drop(reports: true)
        case .value(let number, let channel, let value):
            guard number == link, !hasStaleTable else { return }
            let path = Self.path(channel)
            if let descriptor = notifyEnds[path] {
                _ = value.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL)) }
            } else if notifying.contains(path) {
                await update(path, BlueZName.gattCharacteristic, ["Value": .bytes(value)])
            }
        }
    }
}
