internal import OTAStore

/// Searches for changes of a bucket. One counter numbers the writes of all processes, and transactions are stored in the order of their
/// numbers. Therefore a search for numbers above the last found number misses no change.
actor ChangePoll {
    private let store: LocalStore
    private let bucket: Bucket
    private let interval: Duration
    private var last = Revision.absent
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
                let records = try await store.records(in: bucket, after: last)
                guard let newest = records.last else {
                    try await Task.sleep(for: interval)
                    continue
                }
                last = newest.revision
                return .success(records)
            } catch {
                hasFailed = true
                return (error as? StoreError).map { .failure($0) }
            }
        }
        return nil
    }
}
