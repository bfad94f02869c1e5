import BlueZ

extension BlueZClient {
    /// The time from the first candidate to the choice. If the device itself appears in this time, no link to a candidate is opened.
    private static let choiceTime = Duration.seconds(2)

    /// Scans for a restarted device and for candidates.
    ///
    /// - Parameters:
    ///   - rejected: the addresses of the candidates that must be left alone.
    ///   - limit: the time limit of the scan.
    /// - Returns: the first candidate; nil if the device itself was seen.
    /// - Throws: ``BlueZError/Code/timedOut`` if neither was seen.
    nonisolated func find(
        _ likeness: Likeness, rejecting rejected: Set<String>, over adapter: String?, limit: Duration
    ) async throws -> BluetoothDevice? {
        // The scan has no filter for services. With one, the kernel would discard the packets with the name.
        try await withScan(over: adapter) { scan in
            try await withThrowingTaskGroup(of: Void.self) { group in
                let (messages, post) = AsyncStream.makeStream(of: FindMessage.self)
                group.addTask {
                    defer { post.finish() }
                    for try await event in scan { post.yield(.seen(event)) }
                }
                group.addTask {
                    try await Task.sleep(for: limit)
                    post.yield(.over)
                }
                defer { group.cancelAll() }
                var search = CandidateScan(likeness, rejected: rejected)
                var isChoosing = false
                for await message in messages {
                    if case .seen(let event) = message, search.note(event) { return nil }
                    if case .seen = message {
                        guard !isChoosing, !search.candidates.isEmpty else { continue }
                        isChoosing = true
                        group.addTask {
                            try await Task.sleep(for: Self.choiceTime)
                            post.yield(.choose)
                        }
                    } else if let candidate = search.candidates.first {
                        return candidate
                    } else if case .over = message {
                        throw BlueZError(.timedOut, search.failure(after: limit))
                    } else {
                        isChoosing = false
                    }
                }
                // The scan has ended: its task has failed, or this task was cancelled.
                try await group.next()
                throw BlueZError(.cancelled, "the scan was cancelled")
            }
        }
    }
}

private enum FindMessage: Sendable {
    case seen(ScanEvent)
    /// A candidate was seen some time ago.
    case choose
    /// The time limit has passed.
    case over
}
