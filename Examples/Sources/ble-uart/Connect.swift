import ArgumentParser
import BlueZ
import ExampleSupport
import UARTProtocol

/// The central with a screen.
struct Connect: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "List the devices in range, and connect to one.", discussion: "Example: ble-uart --name bench")

    @OptionGroup var adapter: AdapterOption
    @Option(help: "List only devices with this text in their name.")
    var name = ""
    @Option(help: "The file for a received image. An existing file is replaced.")
    var output = "image.png"
    @Flag(help: "Connect to the device of the last conversation when it is in range.")
    var last = false

    func run() async throws {
        let lastDevice = LastDevice(of: "ble-uart")
        let awaited = last ? lastDevice.address : nil
        guard !last || awaited != nil else { throw Failure("there is no last device; hint: ble-uart") }
        try await withClient { [adapter, name, output] client in
            let program = CentralProgram(client: client, adapter: adapter.adapter, file: output, lastDevice: lastDevice)
            let screen = CentralScreen(filter: name, awaiting: awaited)
            let undelivered = try await Terminal.with(hint: "ble-uart image photo.png") {
                await program.run(screen, $0)
            }
            guard undelivered == 0 else {
                throw Undelivered("messages not confirmed: \(undelivered); hint: ble-uart --last, and send them again")
            }
        }
    }
}

/// Shows the screen on the terminal, and performs its actions.
private struct CentralProgram {
    let client: BlueZClient
    let adapter: String?
    let file: String
    let lastDevice: LastDevice

    /// Returns the number of messages that the peripheral of the last conversation has not confirmed.
    func run(_ initial: CentralScreen, _ terminal: Terminal) async -> Int {
        let (events, feed) = AsyncStream.makeStream(of: CentralScreen.Event.self)
        terminal.onKey { feed.yield(.key($0)) }
        var screen = initial
        var conversation: (peripheral: RemotePeripheral, task: Task<Void, Never>)?
        var scan: Task<Void, Never>? = self.scan(feed)
        terminal.show(screen.lines(height: terminal.size.height))
        for await event in events {
            if case .session(.image(let bytes, _)) = event { feed.yield(saved(bytes)) }
            if case .ended = event {
                conversation = nil
                scan = self.scan(feed)
            }
            let action = screen.handle(event)
            switch action {
            case .connect(let device):
                scan?.cancel()
                await scan?.value
                conversation = talk(with: device, feed)
            case .getImage:
                do {
                    try checkWritable(file)
                    await conversation?.peripheral.perform(.getImage)
                } catch { feed.yield(.failed("\(error)")) }
            case .send, .toggle:
                guard let action, await conversation?.peripheral.perform(action) == false else { break }
                feed.yield(.failed("Not sent: \(Outbox.limit) messages wait. Try again when they have arrived."))
            case .disconnect:
                if await conversation?.peripheral.perform(.disconnect) != true { conversation?.task.cancel() }
            case .quit: feed.finish()
            case nil: break
            }
            terminal.show(screen.lines(height: terminal.size.height))
        }
        scan?.cancel()
        await scan?.value
        guard let (peripheral, task) = conversation else { return 0 }
        // The last messages have 3 s to arrive.
        if Task.isCancelled { task.cancel() } else if await !peripheral.perform(.disconnect) { task.cancel() }
        await task.value
        return await peripheral.undelivered
    }

    /// Scans until the task is cancelled. Devices without a name are not in the list.
    private func scan(_ feed: AsyncStream<CentralScreen.Event>.Continuation) -> Task<Void, Never> {
        Task {
            await client.keepScanning(over: adapter, failed: { feed.yield(.scanFailed(sentence($0))) }) { event in
                switch event {
                case .appeared(let device), .changed(let device):
                    guard let name = device.name, let rssi = device.rssi else { return }
                    feed.yield(.found(.init(address: device.address, name: name, rssi: rssi)))
                case .disappeared(let device): feed.yield(.disappeared(device.address))
                }
            }
        }
    }

    private func talk(
        with device: CentralScreen.Device, _ feed: AsyncStream<CentralScreen.Event>.Continuation
    ) -> (RemotePeripheral, Task<Void, Never>) {
        lastDevice.set(device.address)
        let peripheral = RemotePeripheral(client, .address(device.address), adapter: adapter) { feed.yield($0) }
        let task = Task {
            var reason: String?
            do { try await peripheral.run() } catch {
                if !Task.isCancelled { reason = sentence(error) }
            }
            feed.yield(.ended(reason: reason, undelivered: await peripheral.undelivered))
        }
        return (peripheral, task)
    }

    private func saved(_ bytes: [UInt8]) -> CentralScreen.Event {
        do {
            try save(bytes, as: file)
            return .saved(file: file)
        } catch { return .failed("\(error)") }
    }
}
