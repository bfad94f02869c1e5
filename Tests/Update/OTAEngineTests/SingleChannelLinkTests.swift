import OTAEngine
import OTATestSupport
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

    /// A pipe whose `send` returns only when the pipe is closed.
    private struct Blocked: ValuePipe {
        let sending = AsyncStream.makeStream(of: Void.self)
        private let end = AsyncStream.makeStream(of: Void.self)

        func send(_ value: [UInt8]) async throws(LinkError) {
            sending.continuation.yield()
            // A task of its own, so that only `close` ends the wait.
            await Task { for await _ in end.stream {} }.value
            throw LinkError(.lost, "closed")
        }

        func receive() async throws(LinkError) -> [UInt8] {
            for await _ in end.stream {}
            throw LinkError(.lost, "closed")
        }

        func close() { end.continuation.finish() }
    }

    private struct PipeTransport<Pipe: ValuePipe>: Transport {
        let pipe: Pipe

        func runLink(opened: (any Link) -> Void, receive: @escaping LinkSink) async -> LinkError {
            let link = SingleChannelLink(
                pipe, channel: SingleChannelLinkTests.channel, maximumValueLength: 10, receive: receive)
            return await link.run(opened: opened)
        }
    }

    /// The events of a link that is closed after `count` events, and the reason of its end.
    private static func events(
        _ count: Int, of commands: [LinkCommand], over pipe: Echo = Echo()
    ) async throws -> (events: [LinkEvent], end: LinkError?) {
        try await PipeTransport(pipe: pipe).withLink { link, stream in
            #expect(link.properties.channels == [channel] && link.properties.preservesMessageBoundaries)
            #expect(link.properties.maximumValueLength == 10)
            for command in commands { link.submit(command) }
            let (events, end) = await stream.collect(count)
            link.close()
            let (rest, closed) = await stream.collect()
            return (events + rest, end ?? closed)
        }
    }

    @Test("values are sent in order and received as notifications, and closing the link closes the pipe")
    func valuesGoOutInOrderAndComeIn() async throws {
        let pipe = Echo()
        let (events, end) = try await Self.events(
            4, of: [.subscribe(Self.channel), .send([[1], [2, 3], []], Self.channel)], over: pipe)
        let values: [LinkEvent] = [[1], [2, 3], []].map { .notified($0, Self.channel) }
        #expect(events == [.subscribed(Self.channel)] + values)
        #expect(end?.detail == "the link was closed")
        #expect(await pipe.isClosed)
    }

    @Test("read, write and other channels are refused")
    func requestsAreRefused() async throws {
        let commands: [LinkCommand] = [
            .read(Self.channel), .write([1], Self.channel), .subscribe(Self.other), .send([[1]], Self.other),
        ]
        let refusal = LinkError(.refused, "")
        let (events, end) = try await Self.events(4, of: commands)
        #expect(
            events == [Self.channel, Self.channel, Self.other, Self.other].map { LinkEvent.refused(refusal, $0) })
        #expect(end?.code == .lost)
    }

    @Test("the link ends with lost when its pipe fails")
    func aBrokenPipeIsTheLinksEnd() async throws {
        let (events, end) = try await Self.events(9, of: [.send([[0xFF], [1]], Self.channel)])
        #expect(events == [])
        #expect(end?.detail == "broken")
    }

    @Test("a close ends the link while a send blocks and commands are queued")
    func aCloseEndsABlockedSend() async throws {
        let pipe = Blocked()
        try await PipeTransport(pipe: pipe).withLink { link, events in
            link.submit(.send([[1]], Self.channel))
            link.submit(.subscribe(Self.channel))
            for await _ in pipe.sending.stream { break }
            link.close()
            let (_, end) = await events.collect()
            #expect(end?.detail == "the link was closed")
        }
    }

    @Test("a cancelled task ends the link")
    func aCancellationEndsTheLink() async throws {
        let pipe = Echo()
        let task = Task {
            await PipeTransport(pipe: pipe).runLink { _ in
            } receive: { _ in
            }
        }
        task.cancel()
        #expect(await task.value.code == .lost)
        #expect(await pipe.isClosed)
    }
}
