import OTAFleet

/// Writes the accepted serial numbers (`SerialMemory`) to the disk, and records whether the newest version is on the disk.
///
/// A gateway starts no attempt, and a controller writes no progress, before the serials of all accepted records are on the disk. Without
/// this rule, a later run of the process could accept an older version of a record.
struct MemorySaving: Sendable {
    private static let retryTime = Duration.seconds(5)
    private var isChanged = false
    private var isSaving = false
    private var retry: Duration?

    var isSaved: Bool { !isChanged && !isSaving }
    /// The time of the next try after a failure; nil if no try is planned.
    var deadline: Duration? { isChanged && !isSaving ? retry : nil }

    mutating func change() { isChanged = true }

    /// Writes the memory in a task of the group, if it has changed and no write is under way.
    ///
    /// - Parameter ended: receives the error of the write, or nil. The caller then calls `end(_:at:)`.
    mutating func start(
        _ memory: SerialMemory, at now: Duration, in group: inout DiscardingTaskGroup,
        save: @escaping @Sendable (SerialMemory) async throws -> Void, ended: @escaping @Sendable ((any Error)?) -> Void
    ) {
        guard isChanged, !isSaving, now >= retry ?? .zero else { return }
        isChanged = false
        isSaving = true
        group.addTask {
            do {
                try await save(memory)
                ended(nil)
            } catch {
                ended(error)
            }
        }
    }

    mutating func end(_ isWritten: Bool, at now: Duration) {
        isSaving = false
        retry = isWritten ? nil : now + Self.retryTime
        if !isWritten { isChanged = true }
    }
}
