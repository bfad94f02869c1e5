import BlueZ
import OTASimulator
import OTAUpdate

/// Over the air, behind a Bluetooth peripheral.
extension ServedDevice {
    /// bluetoothd does not tell a peripheral the MTU of a connection before something is written: until then notifications are as
    /// short as every link carries them.
    private static let shortestValue = 20
    /// What BlueZ 5.66 cuts off beyond: to a central that takes several notifications in one packet it sends each with its length,
    /// also where there is but one.
    private static let notificationHeader = 5
    /// An attribute's longest value: bluetoothd takes the part that fits.
    private static let longestRead = 512

    /// Advertises while it runs; at each restart drops its links and is silent until it has booted. Until the task is
    /// cancelled, or it cannot boot.
    func live(on peripheral: Peripheral, _ advertisement: Advertisement) async throws {
        device.observe { _, channel, value in
            peripheral.notify(value, on: LocalAttribute(channel))
            return true
        } onRestart: { [restart, wake] in
            restart.yield()
            wake.yield()
        }
        var restarts = restarts.makeAsyncIterator()
        while let boot = device.reachable(at: now) {
            try await Task.sleep(until: start + boot, clock: .continuous)
            let isOver = try await peripheral.withAdvertisement(advertisement) {
                await restarts.next(isolation: #isolation) == nil
            }
            if isOver { return }
            note("it restarts")
            peripheral.disconnectAll()
        }
        note("it cannot boot any more")
    }

    /// Hands it what comes, until nothing comes any more.
    func serve(_ events: PeripheralEvents) async throws {
        for try await event in events {
            switch event {
            case .connected(let connection):
                note("\(connection.central) is connected")
                // While it restarts there is nobody, and requests are refused.
                _ = device.connect(
                    connection.handle, valueLength: Self.shortestValue, at: now)
            case .disconnected(let connection):
                note("\(connection.central) is disconnected")
                device.disconnect(connection.handle, at: now)
            case .subscribed(let connection, let attribute, let on):
                // In vain while it restarts, which the central's next request shows.
                try? device.subscribe(connection.handle, to: attribute.channel, on: on, at: now)
            case .read(let request): answer(request)
            case .write(let request): answer(request)
            }
            wake.yield()
        }
    }

    private func answer(_ request: ReadRequest) {
        do throws(ATTError) {
            let channel = request.attribute.channel
            request.succeed(
                with: try device.read(
                    request.connection.handle, channel, offset: request.offset, capacity: Self.longestRead, at: now))
        } catch {
            request.fail(with: AttributeError(code: error.code))
        }
    }

    private func answer(_ request: WriteRequest) {
        // Nothing in the profile is written in pieces.
        guard request.offset == 0 else { return request.fail(with: .invalidOffset) }
        if let mtu = request.mtu {
            device.updateLink(
                request.connection.handle, valueLength: min(mtu - Self.notificationHeader, Self.longestRead))
        }
        do throws(ATTError) {
            try device.write(request.connection.handle, request.attribute.channel, request.value, at: now)
            request.succeed()
        } catch {
            request.fail(with: AttributeError(code: error.code))
        }
    }
}

extension PeripheralConnection {
    /// The stack's handle, as the device core wants it.
    fileprivate var handle: UInt16 { UInt16(truncatingIfNeeded: number) }
}
