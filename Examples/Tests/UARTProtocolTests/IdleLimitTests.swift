import BlueZ
import ExampleSupport
import Testing

@Suite("Examples: the time of an idle central")
struct IdleLimitTests {
    private static let long = Duration.seconds(3600)

    @Test(
        "a new link is limited, unless a program on this machine has opened it",
        arguments: [(LinkOpener.central, true), (.unknown, true), (.host, false)], [true, false])
    func connected(_ opener: (LinkOpener, isLimited: Bool), isForFirstWrite: Bool) {
        var limit = IdleLimit<Int>(Self.long, isForFirstWrite: isForFirstWrite) { _ in }
        limit.connected(1, openedBy: opener.0)
        #expect(limit.limited.contains(1) == opener.isLimited)
        // bluetoothd reports this also for links that have not subscribed.
        limit.unsubscribed(1)
        #expect(limit.limited.contains(1) == opener.isLimited)
        limit.disconnected(1)
        #expect(limit.limited.isEmpty)
    }

    @Test("the limit for the first write ends with it, and starts again when the program of the central ends")
    func firstWrite() {
        for opener in [.central, .host] as [LinkOpener] {
            var limit = IdleLimit<Int>(Self.long, isForFirstWrite: true) { _ in }
            limit.connected(1, openedBy: opener)
            limit.requested(1, isWrite: false)
            #expect(limit.limited.contains(1) == (opener == .central))
            limit.requested(1, isWrite: true)
            #expect(limit.limited.isEmpty)
            limit.unsubscribed(1)
            #expect(limit.limited == [1])
            limit.requested(1, isWrite: true)
            #expect(limit.limited.isEmpty)
            limit.disconnected(1)
            limit.unsubscribed(1)
            #expect(limit.limited.isEmpty)
        }
    }

    @Test("each request starts the time of all requests, also on a link of a program on this machine")
    func eachRequest() {
        var limit = IdleLimit<Int>(Self.long) { _ in }
        for (link, isWrite) in [(1, true), (2, false)] {
            limit.connected(link, openedBy: .host)
            limit.requested(link, isWrite: isWrite)
        }
        #expect(limit.limited == [1, 2])
        limit.disconnected(1)
        #expect(limit.limited == [2])
    }

    @Test("a central that turns its subscription off again and again does not extend its time", .timeLimit(.minutes(1)))
    func isNotExtended() async {
        let (ended, feed) = AsyncStream.makeStream(of: Int.self)
        var limit = IdleLimit<Int>(.milliseconds(50)) { feed.yield($0) }
        limit.connected(1, openedBy: .central)
        let repeated = Task { [limit] in
            var limit = limit
            while !Task.isCancelled {
                limit.unsubscribed(1)
                try? await Task.sleep(for: .milliseconds(1))
            }
        }
        for await link in ended {
            #expect(link == 1)
            break
        }
        repeated.cancel()
    }
}
