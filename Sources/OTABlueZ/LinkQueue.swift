import BlueZ
import OTAUpdate

/// Carries out a link's commands in their order. It runs on the thread of the bus and its sockets, so that a packet needs no hop.
actor LinkQueue {
    nonisolated var unownedExecutor: UnownedSerialExecutor { connection.unownedExecutor }

    private let connection: DeviceConnection
    private let outlet: AsyncStream<LinkEvent>.Continuation
    private let characteristics: [Channel: GATTCharacteristic]
    private var writers: [Channel: AcquiredWriter] = [:]
    /// Channels whose values go over the bus, one by one, as bluetoothd gives no socket for them.
    private var withoutSocket: Set<Channel> = []
    /// Writes that wait for the device's answer: one for each channel, since bluetoothd refuses a second one.
    private var writes: [Channel: Task<Void, Never>] = [:]
    private(set) var hasStaleTable = false

    init(_ connection: DeviceConnection, _ outlet: AsyncStream<LinkEvent>.Continuation) {
        self.connection = connection
        self.outlet = outlet
        characteristics = Dictionary(
            connection.services.flatMap(\.characteristics).map { (Channel($0), $0) },
            uniquingKeysWith: { first, _ in first })
    }

    /// Until the connection ends, there are no more commands, or one fails that is not answered: why the link is of no more use.
    func run(_ commands: AsyncStream<LinkCommand>, closing feed: AsyncStream<LinkCommand>.Continuation) async
        -> LinkError
    {
        let failure = await withTaskGroup(of: Void.self) { group in
            let connection = connection
            group.addTask {
                _ = try? await connection.waitForEnd()
                feed.finish()
            }
            let failure = await drain(commands, &group)
            group.cancelAll()
            return failure
        }
        guard let ended = await connection.ended else {
            for write in writes.values { write.cancel() }
            return failure ?? LinkError(.lost, "the link was closed")
        }
        for write in writes.values { await write.value }
        return LinkError(lost: ended)
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

    // MARK: - Without an answer

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

    // MARK: - With an answer

    /// A write gets to the device behind every value sent before it: bluetoothd sends requests behind the commands in its queue,
    /// and it must have taken those that still lie in a socket (docs/ota-profile.md, "The flush on BlueZ").
    private func write(_ value: [UInt8], _ channel: Channel) async throws(BlueZError) {
        await writes[channel]?.value
        for writer in writers.values { try await writer.waitUntilDrained() }
        writes[channel] = Task { await self.writeAnswered(value, channel) }
    }

    private func writeAnswered(_ value: [UInt8], _ channel: Channel) async {
        do throws(BlueZError) {
            let characteristic = try characteristic(channel)
            do throws(BlueZError) {
                try await connection.write(value, to: characteristic)
            } catch {
                try await pair(after: error)
                try await connection.write(value, to: characteristic)
            }
            outlet.yield(.written(channel))
        } catch {
            refuse(channel, error)
        }
    }

    private func read(_ channel: Channel) async {
        do throws(BlueZError) {
            let characteristic = try characteristic(channel)
            let value: [UInt8]
            do throws(BlueZError) {
                value = try await connection.read(characteristic)
            } catch {
                try await pair(after: error)
                value = try await connection.read(characteristic)
            }
            outlet.yield(.value(value, channel))
        } catch {
            refuse(channel, error)
        }
    }

    private func subscribe(_ channel: Channel, _ listeners: inout TaskGroup<Void>) async {
        do throws(BlueZError) {
            let characteristic = try characteristic(channel)
            let notifications: Notifications
            do throws(BlueZError) {
                notifications = try await connection.subscribe(to: characteristic)
            } catch {
                try await pair(after: error)
                notifications = try await connection.subscribe(to: characteristic)
            }
            let outlet = outlet
            outlet.yield(.subscribed(channel))
            listeners.addTask {
                for await value in notifications { outlet.yield(.notified(value, channel)) }
            }
        } catch {
            refuse(channel, error)
        }
    }

    /// Returns when there is a bond now, and what was refused can be tried once more.
    private func pair(after error: BlueZError) async throws(BlueZError) {
        guard error.code == .notPaired else { throw error }
        try await connection.pair()
    }

    private func refuse(_ channel: Channel, _ error: BlueZError) {
        // ATT errors "invalid handle" and "attribute not found".
        if error.attributeError == 0x01 || error.attributeError == 0x0A { hasStaleTable = true }
        outlet.yield(.refused(LinkError(error), channel))
    }

    private func characteristic(_ channel: Channel) throws(BlueZError) -> GATTCharacteristic {
        guard let characteristic = characteristics[channel] else {
            throw BlueZError(.noSuchObject, "the device has no such characteristic")
        }
        return characteristic
    }
}
