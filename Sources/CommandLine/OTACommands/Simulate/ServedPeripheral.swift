import BlueZ
import OTASimulator
import OTAUpdate

/// Serves the device over Bluetooth LE, as a peripheral.
extension ServedDevice {
    /// The maximum length of a value until the first write by the central, in bytes. bluetoothd reports the MTU of the connection only with
    /// a write. Before the first write, 20 bytes are used, because every link can carry 20 bytes.
    private static let shortestValue = 20
    /// The maximum length of an attribute value, in bytes. In the answer to a read, bluetoothd truncates the value to the MTU.
    private static let longestRead = 512

    /// Advertises while the device runs. A restart of the device ends its links. After the boot, the device advertises again.
    ///
    /// This function returns when the task is cancelled or the device cannot boot.
    func advertise(on peripheral: Peripheral, _ advertisement: Advertisement) async throws {
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
            note("restarting")
            peripheral.disconnectAll()
        }
        note("cannot boot any more")
    }

    /// Passes the peripheral's events to the device until the events end.
    func serve(_ events: PeripheralEvents) async throws {
        for try await event in events {
            switch event {
            case .connected(let connection):
                note("\(connection.central) connected")
                // During a restart of the device, `connect` fails. The device then refuses all requests over this connection.
                _ = device.connect(
                    connection.handle, valueLength: Self.shortestValue, at: now)
            case .disconnected(let connection):
                note("\(connection.central) disconnected")
                device.disconnect(connection.handle, at: now)
            case .subscribed(let connection, let attribute, let on):
                // This call fails during a restart of the device. The error is ignored, because the central notices the failure at its next
                // request.
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
        // The OTA profile does not have long writes, so each write starts at the offset 0.
        guard request.offset == 0 else { return request.fail(with: .invalidOffset) }
        if request.mtu != nil {
            device.updateLink(request.connection.handle, valueLength: request.maximumNotificationLength)
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
    /// The number of the connection in the virtual device.
    fileprivate var handle: UInt16 { UInt16(truncatingIfNeeded: number) }
}

extension SimulatedDevice {
    /// Returns the GATT services of the device, which docs/ota-profile.md and docs/smp.md describe.
    func services(_ protection: LocalCharacteristic.Protection) -> [LocalService] {
        guard channels.contains(VirtualGATT.data) else {
            return [
                LocalService(
                    BluetoothUUID(dataChannel.service),
                    [LocalCharacteristic(dataChannel, [.writeWithoutResponse, .notify], protection)])
            ]
        }
        let ota = LocalService(
            BluetoothUUID(VirtualGATT.service),
            [
                LocalCharacteristic(VirtualGATT.info, [.read]),
                LocalCharacteristic(VirtualGATT.control, [.write, .notify], protection),
                LocalCharacteristic(VirtualGATT.data, [.writeWithoutResponse, .write], protection),
                LocalCharacteristic(VirtualGATT.progress, [.read, .notify]),
                LocalCharacteristic(VirtualGATT.version, [.read]),
            ])
        guard channels.contains(VirtualGATT.battery) else { return [ota] }
        let battery = LocalCharacteristic(VirtualGATT.battery, [.read])
        return [ota, LocalService(BluetoothUUID(VirtualGATT.battery.service), [battery])]
    }
}

extension LocalCharacteristic {
    fileprivate init(_ channel: Channel, _ operations: Set<Operation>, _ protection: Protection = .none) {
        self.init(BluetoothUUID(channel.characteristic), operations, protection: protection)
    }
}

extension LocalAttribute {
    fileprivate init(_ channel: Channel) {
        self.init(BluetoothUUID(channel.service), BluetoothUUID(channel.characteristic))
    }

    fileprivate var channel: Channel { Channel(service: service.value, characteristic: characteristic.value) }
}
