import ArgumentParser
import BlueZ
import OTABlueZ
import OTAClient
import OTAUpdate

/// A command for the GATT services of any Bluetooth device.
protocol GattVerb: Verb {
    var target: GattOptions { get }
    /// The other arguments on the command line, for hints.
    var words: [String] { get }
}

extension GattVerb {
    var words: [String] { [] }

    var invocation: Invocation {
        let words = [Self.name] + ([target.device] + words).map(Shell.quoted)
        var invocation = Invocation(command: words.joined(separator: " "))
        invocation.bluetoothDevice = Shell.quoted(target.device)
        invocation.adapter = target.radio.adapter
        return invocation
    }

    /// Connects and runs `body` with the connection. A signal cancels `body`.
    func withDevice(
        _ console: Console, _ body: @escaping @Sendable (DeviceConnection) async throws -> Result
    ) async throws -> Result {
        let address = try target.address()
        let lock = BluetoothLock(target.device)
        let request = ConnectionRequest(
            address.target(services: [UpdateProtocol.ota.service]), adapter: target.radio.adapter,
            admits: { device throws(BlueZError) in try await lock.take(device) })
        let pairing = target.radio.pairing(console)
        let links = LinkGuard(console.logger)
        defer { links.stop() }
        let client = try await BlueZClient.open(logger: console.logger, links: links)
        let result: Result
        do {
            result = try await Wiring(console: console, invocation: invocation).untilSignalled {
                try await client.withConnection(request, pairing: pairing) { try await body($0) }
            }
        } catch {
            await client.close()
            if let failure = await lock.failure { throw failure }
            throw error
        }
        await client.close()
        return result
    }
}

extension DeviceConnection {
    /// Runs `body`. If the device requires pairing, pairs and runs `body` again.
    nonisolated func pairingIfNeeded<Value: Sendable>(
        _ body: @Sendable () async throws -> Value
    ) async throws -> Value {
        do { return try await body() } catch let error as BlueZError where error.code == .notPaired {
            try await pair()
            return try await body()
        }
    }
}
