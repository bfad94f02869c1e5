internal import OTAStore

/// Searches for changes of a bucket. One counter numbers the writes of all processes, and transactions are stored in the order of their
/// numbers. Therefore a search finds all changes that are later than the last found change.
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

    /// Waits for changes, and returns them. Returns an error of the store once. After this error, or if the task is cancelled, returns nil.
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
