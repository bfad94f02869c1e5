package import BlueZ
import OTAEngine
package import OTAUpdate

extension LinkProperties {
    init(_ connection: DeviceConnection, candidate: String? = nil) {
        self.init(
            channels: Set(connection.services.flatMap(\.characteristics).map { Channel($0) }),
            maximumValueLength: connection.mtu - 3, candidate: candidate,
            operations: Dictionary(
                connection.services.flatMap(\.characteristics).map { characteristic in
                    (
                        Channel(characteristic),
                        Set(characteristic.operations.compactMap { ChannelOperation(rawValue: $0.rawValue) })
                    )
                }, uniquingKeysWith: { first, _ in first }))
    }
}

extension Channel {
    init(_ characteristic: GATTCharacteristic) {
        self.init(service: characteristic.service.value, characteristic: characteristic.uuid.value)
    }
}

/// Performs the commands of a link in the order of submission. The actor, the bus connection and the packet sockets use the same thread,
/// so the actor sends packets without a thread switch.
actor BlueZCommands {
    nonisolated var unownedExecutor: UnownedSerialExecutor { connection.unownedExecutor }

    /// The number of writes with response, 50 ms apart, after this actor has closed the socket of the characteristic.
    private static let attemptsAfterClose = 20

    private let connection: DeviceConnection
    private let receive: LinkSink
    /// True if this program pairs with the device when a request needs a bond. If false, such a request fails.
    private let pairs: Bool
    private let characteristics: [Channel: GATTCharacteristic]
    private var writers: [Channel: AcquiredWriter] = [:]
    /// The channels without a socket, because bluetoothd does not provide one. This actor sends each value for these channels in a
    /// separate D-Bus message.
    private var withoutSocket: Set<Channel> = []
    /// The writes that wait for the device's response. A channel has at most one pending write, because bluetoothd refuses a second
    /// pending write to the same characteristic.
    private var writes: [Channel: Task<Void, Never>] = [:]
    /// Whether the device has notified a value on this link.
    private(set) var hasNotified = false
    /// Whether an error of the device has shown that bluetoothd's attribute table is stale.
    private var hasStaleTable = false
    /// Whether the device has refused a command with an error other than a demand for a bond.
    private var hasRefused = false
    /// Whether this program has closed the link. If false, the link was lost.
    private var hasClosed = false

    /// Whether bluetoothd's attribute table may be stale.
    ///
    /// bluetoothd keeps the table of a device. If other firmware has moved the attributes, the commands reach other attributes. These
    /// attributes accept or refuse the commands, and no notification arrives.
    var mayHaveStaleTable: Bool { hasStaleTable || !hasNotified && (hasRefused || hasClosed) }

    init(_ connection: DeviceConnection, _ receive: @escaping LinkSink, pairs: Bool) {
        self.connection = connection
        self.pairs = pairs
        self.receive = receive
        characteristics = Dictionary(
            connection.services.flatMap(\.characteristics).map { (Channel($0), $0) },
            uniquingKeysWith: { first, _ in first })
    }

    /// Performs the commands until the link is lost or closed, or until a value cannot be sent. Returns the reason for the end of the
    /// link.
    func run(_ link: QueuedLink) async -> LinkError {
        let reason = await withTaskGroup(of: Void.self) { group in
            group.addTask { if let error = await self.perform(link.commands) { link.end(error) } }
            group.addTask { [connection] in
                if let end = try? await connection.waitForEnd() { link.end(LinkError(lost: end)) }
            }
            let reason = await link.waitForEnd()
            group.cancelAll()
            return reason
        }
        let ended = await connection.ended
        hasClosed = ended == nil
        // Wait until all pending writes have ended. A pending write can report an event, but no event may come after this method has
        // returned.
        for write in writes.values {
            if ended == nil { write.cancel() }
            await write.value
        }
        return ended.map { LinkError(lost: $0) } ?? reason
    }

    private func perform(_ commands: AsyncStream<LinkCommand>) async -> LinkError? {
        await withTaskGroup(of: Void.self) { listeners in
            let failure = await drain(commands, &listeners)
            listeners.cancelAll()
            return failure
        }
    }

    private func drain(_ commands: AsyncStream<LinkCommand>, _ listeners: inout TaskGroup<Void>) async -> LinkError? {
        for await command in commands {
            do throws(BlueZError) {
                switch command {
                case .send(let values, let channel): try await send(values, channel)
                case .write(let value, let channel): try await write(value, channel)
                case .read(let channel): await read(channel)
                case .subscribe(let channel): await subscribe(channel, &listeners)
                }
            } catch {
                return LinkError(error)
            }
        }
        return nil
    }

    // MARK: - Commands without a response

    private func send(_ values: [[UInt8]], _ channel: Channel) async throws(BlueZError) {
        let characteristic = try characteristic(channel)
        if let writer = try await writer(characteristic, channel) {
            try await writer.write(values)
        } else {
            try await connection.send(values, to: characteristic)
        }
    }

    private func writer(
        _ characteristic: GATTCharacteristic, _ channel: Channel
    ) async throws(BlueZError) -> AcquiredWriter? {
        if let writer = writers[channel] { return writer }
        guard !withoutSocket.contains(channel) else { return nil }
        do throws(BlueZError) {
            let writer = try await connection.acquireWriter(of: characteristic)
            writers[channel] = writer
            return writer
        } catch {
            guard error.code == .notSupported || error.code == .noSuchObject else { throw error }
            withoutSocket.insert(channel)
            return nil
        }
    }

    // MARK: - Commands with a response

    /// Writes a value with response. The device must receive this value after all values of earlier `send` commands. bluetoothd sends
    /// its queued writes without response before this write, but a value that is still in a socket is not in this queue. Therefore this
    /// method first waits until all sockets are empty (docs/ota-profile.md, "The flush on BlueZ").
    private func write(_ value: [UInt8], _ channel: Channel) async throws(BlueZError) {
        await writes[channel]?.value
        for writer in writers.values { try await writer.waitUntilDrained() }
        // While the socket of this characteristic is open, bluetoothd refuses a write with response.
        let closed = writers.removeValue(forKey: channel)
        await closed?.close()
        let attempts = closed == nil ? 1 : Self.attemptsAfterClose
        // `startWrite` is a separate method, because the program crashes if the closure of the task contains another closure (Swift
        // 6.3.1).
        writes[channel] = Task { await startWrite(value, channel, attempts) }
    }

    private func startWrite(_ value: [UInt8], _ channel: Channel, _ attempts: Int) async {
        await answer(channel) { characteristic in
            try await write(value, characteristic, attempts)
            return .written(channel)
        }
    }

    /// Writes a value with response. Tries again while bluetoothd has not noticed that the socket of the characteristic is closed.
    private func write(_ value: [UInt8], _ characteristic: GATTCharacteristic, _ attempts: Int) async throws {
        for _ in 1..<attempts {
            do throws(BlueZError) { return try await connection.write(value, to: characteristic) } catch {
                guard error.code == .acquiredElsewhere else { throw error }
            }
            try await Task.sleep(for: .milliseconds(50))
        }
        try await connection.write(value, to: characteristic)
    }

    private func read(_ channel: Channel) async {
        await answer(channel) { .value(try await connection.read($0), channel) }
    }

    private func subscribe(_ channel: Channel, _ listeners: inout TaskGroup<Void>) async {
        var notifications: Notifications?
        await answer(channel) { characteristic in
            // Use D-Bus signals until the device is paired (`DeviceConnection.subscribe` describes the reason). Exception: always use a
            // socket for a readable characteristic, because D-Bus signals do not distinguish notified values from read values.
            let overSocket = connection.device.isPaired || characteristic.operations.contains(.read)
            notifications = try await connection.subscribe(to: characteristic, overSocket: overSocket)
            return .subscribed(channel)
        }
        guard let notifications else { return }
        listeners.addTask { [receive] in
            var isFirst = true
            for await value in notifications {
                if isFirst { await self.notified() }
                isFirst = false
                receive(.notified(value, channel))
            }
        }
    }

    private func notified() { hasNotified = true }

    /// Performs a request and reports the result as an event. If the device requires pairing and `pairs` is true, this method pairs with
    /// the device and repeats the request once.
    private func answer(_ channel: Channel, _ ask: (GATTCharacteristic) async throws -> LinkEvent) async {
        do {
            let characteristic = try characteristic(channel)
            do {
                receive(try await ask(characteristic))
            } catch let error as BlueZError where error.code == .notPaired && pairs {
                try await connection.pair()
                receive(try await ask(characteristic))
            }
        } catch {
            await refuse(channel, error as? BlueZError ?? BlueZError(.failed, "\(error)"))
        }
    }

    private func refuse(_ channel: Channel, _ error: BlueZError) async {
        // ATT error 0x01 is "invalid handle", and 0x0A is "attribute not found". Both errors mean that bluetoothd's attribute table
        // is stale.
        if error.attributeError == 0x01 || error.attributeError == 0x0A { hasStaleTable = true }
        let error = LinkError(error)
        if error.code == .refused { hasRefused = true }
        // If the link has ended, do not report the error, because `run` reports the end of the link. Exception: always report a failed
        // pairing (`notPermitted`), because the failed pairing is the cause of the end.
        if error.code != .notPermitted, await connection.ended != nil { return }
        receive(.refused(error, channel))
    }

    private func characteristic(_ channel: Channel) throws(BlueZError) -> GATTCharacteristic {
        guard let characteristic = characteristics[channel] else {
            throw BlueZError(.noSuchObject, "the device has no such characteristic")
        }
        return characteristic
    }
}

extension LinkError {
    /// Creates the link error for a Bluetooth error.
    package init(_ error: BlueZError) {
        let code: Code =
            switch error.code {
            case .busUnavailable, .serviceUnavailable, .accessDenied, .noSuchAdapter, .adapterOff: .unavailable
            case .noSuchDevice, .ambiguousDevice: .noSuchDevice
            case .timedOut: .timedOut
            case .notPaired, .pairingFailed: .notPermitted
            case .acquiredElsewhere: .inUse
            case .notPermitted, .noSuchObject, .invalidLength, .attributeError, .notSupported, .invalidArguments:
                .refused
            case .connectionFailed, .disconnected, .inProgress, .alreadyDone, .unexpectedReply, .failed, .cancelled:
                .lost
            }
        let remedy: UpdateError.Remedy? =
            switch error.bond {
            case .unauthenticated: .checkDevice
            case .mismatched, .unknown: .removeBond
            case nil: error.code == .ambiguousDevice ? .chooseDevice : nil
            }
        self.init(code, error.context, remedy: remedy, attributeError: error.attributeError)
    }

    /// Creates the error for a link that was connected and has ended.
    init(lost end: ConnectionEnd) {
        self.init(.lost, end.reason == .unknown ? end.error.context : "\(end.error.context) (\(end.reason.rawValue))")
    }
}
