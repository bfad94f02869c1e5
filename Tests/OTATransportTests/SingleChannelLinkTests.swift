import OTATransport
import OTAUpdate
import Testing

@Suite("Link with a single channel") struct SingleChannelLinkTests {
    static let channel = Channel(service: 1, characteristic: 2)
    static let other = Channel(service: 1, characteristic: 3)

    /// Returns each sent value. The value FF breaks the pipe.
    private actor Echo: ValuePipe {
        private let values: AsyncStream<[UInt8]>
        private let feed: AsyncStream<[UInt8]>.Continuation
        private(set) var isClosed = false

        init() { (values, feed) = AsyncStream.makeStream() }

        func send(_ value: [UInt8]) throws(LinkError) {
            guard value != [0xFF] else { throw LinkError(.lost, "broken") }
            feed.yield(value)
        }

        func receive() async throws(LinkError) -> [UInt8] {
            for await value in values { return value }
            throw LinkError(.lost, "closed")
        }

        func close() {
            isClosed = true
            feed.finish()
        }
    }

    /// The events of a link that is closed after `count` events.
    private static func events(_ count: Int, of commands: [LinkCommand], over pipe: Echo = Echo()) async -> [LinkEvent]
    {
        let link = SingleChannelLink(pipe, channel: channel, maximumValueLength: 10)
        #expect(link.properties.channels == [channel] && link.properties.preservesMessageBoundaries)
        #expect(link.properties.maximumValueLength == 10)
        return await link.withForwarding { link in
            for command in commands { link.submit(command) }
            var events: [LinkEvent] = []
            for await event in link.events {
                events.append(event)
                if events.count == count { link.close() }
            }
            return events
        }
    }

    private static let closed = LinkEvent.lost(LinkError(.lost, "the link was closed"))

    @Test("values are sent in order and received as notifications, and closing the link closes the pipe")
    func valuesGoOutInOrderAndComeIn() async {
        let pipe = Echo()
        let events = await Self.events(
            4, of: [.subscribe(Self.channel), .send([[1], [2, 3], []], Self.channel)], over: pipe)
        let values: [LinkEvent] = [[1], [2, 3], []].map { .notified($0, Self.channel) }
        #expect(events == [.subscribed(Self.channel)] + values + [Self.closed])
        #expect(await pipe.isClosed)
    }

    @Test("read, write and other channels are refused")
    func requestsAreRefused() async {
        let commands: [LinkCommand] = [
            .read(Self.channel), .write([1], Self.channel), .subscribe(Self.other), .send([[1]], Self.other),
        ]
        let refusal = LinkError(.refused, "")
        let refusals = [Self.channel, Self.channel, Self.other, Self.other].map { LinkEvent.refused(refusal, $0) }
        #expect(await Self.events(4, of: commands) == refusals + [Self.closed])
    }

    @Test("the link ends with lost when its pipe fails")
    func aBrokenPipeIsTheLinksEnd() async {
        let events = await Self.events(9, of: [.send([[0xFF], [1]], Self.channel)])
        #expect(events == [.lost(LinkError(.lost, "broken"))])
    }
}
