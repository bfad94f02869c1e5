import BlueZ
import OTATransport
import OTAUpdate

/// A connection as a link: takes commands without waiting, and has one task carry them out.
final class BlueZLink: Link {
    let properties: LinkProperties
    let events: AsyncStream<LinkEvent>
    private let commands: AsyncStream<LinkCommand>
    private let feed: AsyncStream<LinkCommand>.Continuation
    private let outlet: AsyncStream<LinkEvent>.Continuation
    private let queue: LinkQueue

    init(_ connection: DeviceConnection) {
        (commands, feed) = AsyncStream.makeStream()
        (events, outlet) = AsyncStream.makeStream()
        queue = LinkQueue(connection, outlet)
        properties = LinkProperties(
            channels: Set(connection.services.flatMap(\.characteristics).map { Channel($0) }),
            maximumValueLength: connection.mtu - 3)
    }

    func submit(_ command: LinkCommand) { feed.yield(command) }

    func close() { end(LinkError(.lost, "the link was closed")) }

    /// What is yielded after the end is dropped by the stream.
    private func end(_ error: LinkError) {
        feed.finish()
        outlet.yield(.lost(error))
        outlet.finish()
    }

    /// What was asked for is answered before the end is told.
    func run() async {
        end(await queue.run(commands, closing: feed))
    }

    /// Whether the device did not know an attribute that bluetoothd remembers of it.
    var hasStaleTable: Bool {
        get async { await queue.hasStaleTable }
    }
}

extension Channel {
    init(_ characteristic: GATTCharacteristic) {
        self.init(service: characteristic.service.value, characteristic: characteristic.uuid.value)
    }
}
