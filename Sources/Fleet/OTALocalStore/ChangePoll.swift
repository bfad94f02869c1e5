internal import OTAStore

/// Searches for changes of a bucket. One counter numbers the writes of all processes, and transactions are stored in the order of their
/// numbers. Therefore a search for numbers above the last found number misses no change. If the file was replaced, or if the counter is below
/// the last found number, the store throws an error.
actor ChangePoll {
    private let store: LocalStore
    private let bucket: Bucket
    private let interval: Duration
    private var position: ChangePosition?
    private var hasFailed = false

    init(store: LocalStore, bucket: Bucket, interval: Duration) {
        self.store = store
        self.bucket = bucket
        self.interval = interval
    }

    /// Waits for changes, and returns the changed records. Returns nil if the task is cancelled. If the store throws an error, this
    /// method returns it once, and then always nil.
    func next() async -> RecordChanges.Batch? {
        while !hasFailed, !Task.isCancelled {
            do {
                let (records, position) = try await store.changes(in: bucket, after: self.position)
                self.position = position
                guard records.isEmpty else { return .success(records) }
                try await Task.sleep(for: interval)
            } catch {
                hasFailed = true
                return (error as? StoreError).map { .failure($0) }
            }
        }
        return nil
    }
}

/// The end of a search for changes.
struct ChangePosition: Sendable {
    /// The number of times that the store had found another file at its path.
    let replacements: Int
    /// The number of the last write that was found.
    let revision: Revision
}
