import DescriptorIO

/// The requests that wait for a reply. The table is safe to use from all threads.
///
/// A request is removed from the table exactly once: by its reply, its timeout, its cancellation, a failed send, a permission error of the
/// server, or the end of the connection. The code that removes a request resumes the task that waits for the reply.
final class PendingReplies: Sendable {
    typealias Outcome = Result<NATSMessage, NATSError>

    private struct Entry {
        var subject: String
        var deadline: ContinuousClock.Instant
        var continuation: CheckedContinuation<Outcome, Never>
    }

    private struct Table {
        var entries: [UInt64: Entry] = [:]
        var lastToken: UInt64 = 0
        /// True while ``sweep()`` runs. The sweep ends when no request waits.
        var isSwept = false
    }

    /// The time between two checks of the deadlines by ``sweep()``. So a timeout can be late by up to this time.
    private static let period = Duration.milliseconds(50)

    private let table = Guarded(Table())

    /// Returns a number that no other request of this connection has.
    func newToken() -> UInt64 {
        table.with { table in
            table.lastToken += 1
            return table.lastToken
        }
    }

    /// Adds a request. The table resumes `continuation` exactly once.
    func add(
        _ token: UInt64, subject: String, timeout: Duration, _ continuation: CheckedContinuation<Outcome, Never>
    ) {
        let entry = Entry(subject: subject, deadline: .now + timeout, continuation: continuation)
        let startsSweeper = table.with { table in
            table.entries[token] = entry
            defer { table.isSwept = true }
            return !table.isSwept
        }
        if startsSweeper { Task.detached { await self.sweep() } }
    }

    /// Whether the request still waits for its reply.
    func contains(_ token: UInt64) -> Bool { table.with { $0.entries[token] != nil } }

    /// Ends a request. This method does nothing if the request has already ended.
    func end(_ token: UInt64, _ outcome: Outcome) {
        table.with { $0.entries.removeValue(forKey: token) }?.continuation.resume(returning: outcome)
    }

    /// Ends all requests to `subject`. If `subject` is nil, ends all requests.
    func endAll(to subject: String? = nil, _ error: NATSError) {
        let ended = table.with { table in
            let ended = table.entries.filter { subject == nil || $0.value.subject == subject }
            for token in ended.keys { table.entries[token] = nil }
            return ended
        }
        for entry in ended.values { entry.continuation.resume(returning: .failure(error)) }
    }

    /// Ends each request after its deadline. Returns when no request waits.
    private func sweep() async {
        repeat {
            try? await Task.sleep(for: Self.period, clock: .continuous)
        } while expire(at: .now)
    }

    /// Ends the requests whose deadline is not later than `now`. Returns true if other requests still wait.
    private func expire(at now: ContinuousClock.Instant) -> Bool {
        let (expired, goesOn) = table.with { table in
            let expired = table.entries.filter { $0.value.deadline <= now }
            for token in expired.keys { table.entries[token] = nil }
            table.isSwept = !table.entries.isEmpty
            return (expired, table.isSwept)
        }
        for entry in expired.values {
            entry.continuation.resume(
                returning: .failure(NATSError(.timedOut, "no reply to the request to \(entry.subject) arrived in time"))
            )
        }
        return goesOn
    }
}
