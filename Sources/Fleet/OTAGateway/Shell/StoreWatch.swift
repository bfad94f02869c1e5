internal import OTAStore

/// A message of a watch to its loop.
enum WatchMessage: Sendable {
    /// All records of the bucket at one time. Each later change follows as `changed`.
    case complete(Bucket, [StoredRecord])
    case changed(StoredRecord)
    /// The watch is interrupted. A `complete` follows when the store answers again.
    case failed(Bucket, StoreError)
}

/// Watches a bucket until the task is cancelled. After an error, the watch pauses for 5 s and starts again.
struct StoreWatch<C: Clock>: Sendable where C.Duration == Duration {
    let store: any FleetStore
    let clock: C

    /// - Parameter needsList: true if `complete` must precede the changes. False: all records are passed as `changed`, which halves the
    ///   work at the start.
    func run(
        _ bucket: Bucket, needsList: Bool = true, post: @escaping @Sendable (WatchMessage) -> Void
    ) async {
        while !Task.isCancelled {
            do {
                // `withChanges` passes all records and then the changes, but does not mark where the changes begin. So read the complete
                // list first, with `records(in:)`.
                if needsList { post(.complete(bucket, try await store.records(in: bucket))) }
                try await store.withChanges(of: bucket) { changes in
                    for try await record in changes { post(.changed(record)) }
                }
            } catch {
                guard !Task.isCancelled else { return }
                let unknown = StoreError(.unavailable, "the watch of \(bucket.rawValue) ended: \(error)")
                post(.failed(bucket, error as? StoreError ?? unknown))
            }
            try? await clock.sleep(for: .seconds(5), tolerance: nil)
        }
    }
}
