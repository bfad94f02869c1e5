import ArgumentParser
import BlueZ
import ExampleSupport
import UARTProtocol

/// The central without a screen: receives the image.
struct Image: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Receive the image of a peripheral, and check its SHA-256.",
        discussion: "Example: ble-uart image photo.png --name Bench")

    @OptionGroup var adapter: AdapterOption
    @Option(help: "The name of the peripheral.")
    var name = "UART"
    @Option(help: "The address of the peripheral. Default: the only device in range with the name.")
    var device: BluetoothAddress?
    @Argument(help: "The file to write. An existing file is replaced.")
    var file: String

    func run() async throws {
        try checkWritable(file)
        let target = device.map { DeviceTarget.address($0) } ?? .name(name)
        try await withClient { client in
            let (events, feed) = AsyncStream.makeStream(of: CentralScreen.Event.self)
            let peripheral = RemotePeripheral(client, target, adapter: adapter.adapter) { feed.yield($0) }
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    defer { feed.finish() }
                    try await peripheral.run()
                }
                var progress = Progress()
                var isComplete = false
                receiving: for await event in events {
                    switch event {
                    case .reconnecting(let reason, let wait):
                        report("Lost the link: \(reason); connecting again in \(wait / .seconds(1)) s")
                    case .session(.ready):
                        if !progress.hasStarted { await peripheral.perform(.getImage) }
                    case .session(.progress(let received, let size)): progress.show(received, size)
                    case .session(.image(let bytes, let digest)):
                        try save(bytes, as: file)
                        report(
                            "\(file): \(bytes.count) bytes, SHA-256 \(digest), \(progress.rate(bytes.count)) bytes/s")
                        isComplete = true
                        break receiving
                    case .session(.imageFailed(let error)): throw Failure("\(error) Run the command again.")
                    case .session(.refused(let refusal)): throw Failure("\(refusal)")
                    default: break
                    }
                }
                // The link may already have ended. Then there is nothing to wait for, and an error has no effect on the saved file.
                if isComplete, await !peripheral.perform(.disconnect) { group.cancelAll() }
                do { try await group.waitForAll() } catch  where isComplete {}
            }
        }
    }
}

/// Prints each tenth part of a transfer.
private struct Progress {
    private var tenths = -1
    private var start = ContinuousClock.now

    var hasStarted: Bool { tenths >= 0 }

    mutating func show(_ received: Int, _ size: Int) {
        if !hasStarted { start = .now }
        guard received * 10 / size != tenths else { return }
        tenths = received * 10 / size
        report("\(tenths * 10) % of \(size) bytes")
    }

    /// Returns the number of bytes per second since the start.
    func rate(_ bytes: Int) -> Int { Int(Double(bytes) / (start.duration(to: .now) / .seconds(1))) }
}
