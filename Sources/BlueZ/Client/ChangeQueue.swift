/// Changes of what bluetoothd is asked to do, one after the other. Each is a task of its own, and comes to its end: whoever is cancelled
/// meanwhile must not leave it half done.
struct ChangeQueue {
    private var last: Task<Result<Void, BlueZError>, Never>?

    /// - Returns: the change, which is made when those before it have ended.
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
