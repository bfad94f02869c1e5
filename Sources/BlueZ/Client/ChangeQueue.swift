/// Runs changes of bluetoothd's state one after the other. Each change runs in its own task and always completes; a
/// cancellation of the caller must not interrupt it.
struct ChangeQueue {
    private var last: Task<Result<Void, BlueZError>, Never>?

    /// Adds a change.
    ///
    /// - Returns: the task of the change. It starts after all earlier changes have ended.
    mutating func add(
        _ change: @escaping @Sendable () async -> Result<Void, BlueZError>
    ) -> Task<Result<Void, BlueZError>, Never> {
        let previous = last
        let task = Task {
            _ = await previous?.value
            return await change()
        }
        last = task
        return task
    }
}
