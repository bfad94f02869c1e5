package import OTAEngine
package import OTAUpdate

/// The events of a link as a stream. When the link ends, the stream throws a `LinkError` that contains the reason.
package typealias LinkEvents = AsyncThrowingStream<LinkEvent, any Error>

extension Transport {
    /// Opens a link, runs `body` with the link and its events, and closes the link when `body` ends.
    ///
    /// - Throws: the errors of `body`; `LinkError` if the link could not be opened.
    package func withLink<Result: Sendable>(
        _ body: (any Link, LinkEvents) async throws -> Result
    ) async throws -> Result {
        let (links, up) = AsyncStream.makeStream(of: (any Link).self)
        let (events, feed) = LinkEvents.makeStream()
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                defer { up.finish() }
                feed.finish(
                    throwing: try await runLink {
                        up.yield($0)
                    } receive: {
                        feed.yield($0)
                    })
            }
            for await link in links {
                defer { link.close() }
                return try await body(link, events)
            }
            try await group.waitForAll()
            throw CancellationError()
        }
    }
}

extension LinkEvents {
    /// Returns the next `count` events. If the link ends earlier, `events` contains fewer events, and `end` is the reason for the end of
    /// the link.
    package func collect(_ count: Int = .max) async -> (events: [LinkEvent], end: LinkError?) {
        var events: [LinkEvent] = []
        do {
            for try await event in self {
                events.append(event)
                if events.count == count { break }
            }
            return (events, nil)
        } catch {
            return (events, error as? LinkError)
        }
    }
}
