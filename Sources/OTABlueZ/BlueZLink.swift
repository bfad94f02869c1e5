import BlueZ
import OTATransport
import OTAUpdate

/// A BlueZ connection as a link. It queues commands without waiting; one task carries them out.
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

    /// The stream drops elements that are yielded after its end.
    private func end(_ error: LinkError) {
        feed.finish()
        outlet.yield(.lost(error))
        outlet.finish()
    }

    /// Runs the commands. Events of earlier commands are delivered before the end of the link is reported.
    func run() async {
        end(await queue.run(commands, closing: feed))
    }

    /// Whether the device refused an attribute that bluetoothd has in its cache.
    var hasStaleTable: Bool {
        get async { await queue.hasStaleTable }
    }
}

extension Channel {
    init(_ characteristic: GATTCharacteristic) {
        self.init(service: characteristic.service.value, characteristic: characteristic.uuid.value)
    }
}
