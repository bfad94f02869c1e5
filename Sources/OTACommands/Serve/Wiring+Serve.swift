import BlueZ
import Logging
import OTAFirmware
import OTASimulator

extension Wiring {
    /// Puts a virtual device on the air until a signal comes. It is as it was left, and is left as it then is.
    ///
    /// - Parameter adapter: nil: the first that is powered.
    func serve(_ name: String, over adapter: String?) async throws {
        let folder = try VirtualDevices()
        let lock = try folder.lock(name, in: situation)
        defer { withExtendedLifetime(lock) {} }
        let device = try folder.store.open(name) { configuration in
            // What BlueZ 5.66 takes as a peripheral: it counts the handle with the 512 bytes of a value.
            configuration.longestData = min(configuration.longestData, 510)
        }
        defer { device.suspend() }
        let console = console
        let served = ServedDevice(device) { console.note("sim:\(name): \($0)") }
        let client = try await BlueZClient.open()
        do {
            try await Interrupts().during {
                console.note("stopping; once more to stop at once")
            } body: { stops in
                try await serve(served, device, name, over: adapter, client, until: stops)
            }
            await client.close()
        } catch {
            await client.close()
            throw error
        }
    }

    private func serve(
        _ served: ServedDevice, _ device: VirtualDevice, _ name: String, over adapter: String?, _ client: BlueZClient,
        until stops: AsyncStream<Void>
    ) async throws {
        let services = device.services(.none)
        try await client.withPeripheral(over: adapter, offering: services) { peripheral in
            console.note("sim:\(name) is on the air as “\(name)” over \(peripheral.adapterName)")
            let advertisement = Advertisement(serviceUUIDs: [services[0].uuid], localName: name)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await served.live(on: peripheral, advertisement) }
                group.addTask { await served.keepTime() }
                group.addTask { try await served.serve(peripheral.events) }
                group.addTask { for await _ in stops { return } }
                defer { group.cancelAll() }
                try await group.next()
            }
            peripheral.disconnectAll()
        }
    }
}
