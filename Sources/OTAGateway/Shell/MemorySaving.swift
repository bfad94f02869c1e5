/// Records whether the memory of serials is on the disk.
///
/// A loop acts on a signed record only after the record's serial is on the disk. Without this rule, a later run of the process could accept
/// an older version of the record.
struct MemorySaving: Sendable {
    private static let retryTime = Duration.seconds(5)
    private var isChanged = false
    private var isSaving = false
    private var retry: Duration?

    var isSaved: Bool { !isChanged && !isSaving }
    /// The time of the next try after a failure; nil if no try is planned.
    var deadline: Duration? { isChanged && !isSaving ? retry : nil }

    mutating func change() { isChanged = true }

    /// Returns whether the caller must write the memory to the disk now.
    mutating func begin(at now: Duration) -> Bool {
        guard isChanged, !isSaving, now >= retry ?? .zero else { return false }
        isChanged = false
        isSaving = true
        return true
    }

    mutating func end(_ isWritten: Bool, at now: Duration) {
        isSaving = false
        retry = isWritten ? nil : now + Self.retryTime
        if !isWritten { isChanged = true }
    }
}
