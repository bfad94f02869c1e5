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

    /// Until there are no more, or one fails that is not answered: then the link is of no more use, for the reason returned.
    func run(_ commands: AsyncStream<LinkCommand>) async -> LinkError? {
        let failure = await withTaskGroup(of: Void.self) { group in
            let failure = await drain(commands, &group)
            group.cancelAll()
            return failure
        }
        for write in writes.values { write.cancel() }
        return failure
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
            try await connection.write(value, to: try characteristic(channel))
            outlet.yield(.written(channel))
        } catch {
            refuse(channel, error)
        }
    }

    private func read(_ channel: Channel) async {
        do throws(BlueZError) {
            outlet.yield(.value(try await connection.read(try characteristic(channel)), channel))
        } catch {
            refuse(channel, error)
        }
    }

    private func subscribe(_ channel: Channel, _ listeners: inout TaskGroup<Void>) async {
        do throws(BlueZError) {
            let notifications = try await connection.subscribe(to: try characteristic(channel))
            let outlet = outlet
            outlet.yield(.subscribed(channel))
            listeners.addTask {
                for await value in notifications { outlet.yield(.notified(value, channel)) }
            }
        } catch {
            refuse(channel, error)
        }
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
