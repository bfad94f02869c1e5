import BlueZ
import Logging
import OTAClient
import OTAFirmware
import OTASerial
import OTASimulator
import OTATransport
import OTAUDP
import OTAUpdate

extension Wiring {
    /// Serves a virtual device over a transport until a signal arrives. The flash of the device keeps its state between commands.
    func serve(_ name: String, over transport: ServedTransport) async throws {
        let folder = try VirtualDevices()
        let lock = try folder.lock(name)
        defer { withExtendedLifetime(lock) {} }
        let device = try open(name, folder.store, for: transport)
        defer { device.suspend() }
        let console = console
        let served = ServedDevice(device) { console.note("sim:\(name): \($0)") }
        try await Interrupts.during(onFirst: stopping) { stops in
            switch transport {
            case .bluetooth(let adapter): try await serve(served, name, over: adapter, until: stops)
            case .udp(let address): try await serve(served, name, at: address, until: stops)
            case .serial: try await serveSerial(served, name, until: stops)
            }
        }
    }

    private func open(
        _ name: String, _ store: VirtualDeviceStore, for transport: ServedTransport
    ) throws -> any ObservedDevice {
        switch try store.updateProtocol(of: name) {
        case .ota:
            guard transport.protocols.contains(.ota) else {
                throw Failure.usage(
                    "sim:\(name) uses the GATT OTA profile, which is available only over Bluetooth",
                    hint: "create a device with SMP: otaflash simulate create NAME --protocol smp")
            }
            return try store.open(name) { configuration in
                // The limit of BlueZ 5.66 as a peripheral: its 512 bytes for a value include the handle.
                configuration.longestData = min(configuration.longestData, 510)
            }
        case .smp:
            return try store.openSMP(name) { configuration in
                guard case .udp = transport else { return }
                // A datagram is one packet, and Zephyr's buffer for it has 1500 bytes.
                configuration.reassembles = false
                configuration.bufferSize = min(configuration.bufferSize, 1500)
            }
        }
    }

    private func serve(
        _ served: ServedDevice, _ name: String, over adapter: String?, until stops: AsyncStream<Void>
    ) async throws {
        let client = try await BlueZClient.open()
        do {
            try await serve(served, name, over: adapter, client, until: stops)
            await client.close()
        } catch {
            await client.close()
            throw error
        }
    }

    private func serve(
        _ served: ServedDevice, _ name: String, over adapter: String?, _ client: BlueZClient,
        until stops: AsyncStream<Void>
    ) async throws {
        let services = served.device.services(.none)
        try await client.withPeripheral(over: adapter, offering: services) { peripheral in
            console.note("sim:\(name) advertises as “\(name)” over \(peripheral.adapterName)")
            let advertisement = Advertisement(serviceUUIDs: [services[0].uuid], localName: name)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await served.live(on: peripheral, advertisement) }
                group.addTask { await served.runClock() }
                group.addTask { try await served.serve(peripheral.events) }
                group.addTask { for await _ in stops { return } }
                defer { group.cancelAll() }
                try await group.next()
            }
            peripheral.disconnectAll()
        }
    }

    private func serve(
        _ served: ServedDevice, _ name: String, at address: UDPAddress, until stops: AsyncStream<Void>
    ) async throws {
        let listener: UDPListener
        do throws(LinkError) { listener = try await UDPListener(at: address) } catch {
            throw Failure(
                "link-unavailable", .unavailable, error.detail,
                hint: "find the program that uses the port: ss -lup; or use another port")
        }
        console.note("sim:\(name) is at udp:\(UDPAddress(host: address.host, port: listener.port))")
        await untilStopped(stops, served) { await served.serve(listener) }
        await listener.close()
    }

    private func serveSerial(_ served: ServedDevice, _ name: String, until stops: AsyncStream<Void>) async throws {
        let terminal: PseudoTerminal
        do throws(LinkError) { terminal = try PseudoTerminal() } catch {
            throw Failure(
                "link-unavailable", .unavailable, error.detail,
                hint: "check that pseudo-terminals are available: ls /dev/pts"
            )
        }
        console.note("sim:\(name) is at serial:\(terminal.path)")
        await untilStopped(stops, served) { await served.serve(terminal.device) }
        await terminal.device.close()
    }

    private func untilStopped(
        _ stops: AsyncStream<Void>, _ served: ServedDevice, _ body: @escaping @Sendable () async -> Void
    ) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await served.runClock() }
            group.addTask { await body() }
            group.addTask { for await _ in stops { return } }
            await group.next()
            group.cancelAll()
        }
    }
}
