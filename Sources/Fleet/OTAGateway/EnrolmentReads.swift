internal import OTAFirmware
public import OTAFleet
public import OTAStore

/// The reads of the lists of enrolled devices that the rollouts name (``Enrolment/list``).
struct EnrolmentReads: Sendable {
    private static let retryTime = Duration.seconds(30)
    private var busy: Set<SHA256Digest> = []
    private var retries: [SHA256Digest: Duration] = [:]

    /// The time of the next read after a failure; nil if no read is planned.
    var deadline: Duration? { retries.values.min() }

    /// Reads the missing lists in tasks of the group, except those whose next read is later.
    ///
    /// - Parameter ended: receives the result of each read. The caller then calls `end(_:_:at:)`.
    mutating func start(
        _ missing: Set<SHA256Digest>, at now: Duration, from store: any FleetStore,
        in group: inout DiscardingTaskGroup,
        ended: @escaping @Sendable (SHA256Digest, Result<EnrolledDevices, any Error>) -> Void
    ) {
        retries = retries.filter { missing.contains($0.key) }
        for digest in missing where !busy.contains(digest) && retries[digest] ?? .zero <= now {
            busy.insert(digest)
            retries[digest] = nil
            group.addTask {
                do { ended(digest, .success(try await EnrolledDevices(digest, from: store))) } catch {
                    ended(digest, .failure(error))
                }
            }
        }
    }

    /// Records that a read has ended.
    mutating func end(_ digest: SHA256Digest, isRead: Bool, at now: Duration) {
        busy.remove(digest)
        if !isRead { retries[digest] = now + Self.retryTime }
    }
}

extension EnrolledDevices {
    /// Reads the enrolled devices of a rollout.
    ///
    /// - Throws: `record-malformed` if the store does not have the list, or if it is not valid; `StoreError`.
    public init(of rollout: Rollout, from store: some FleetStore) async throws {
        self = if let list = rollout.enrolment.list { try await Self(list, from: store) } else { .none }
    }

    fileprivate init(_ digest: SHA256Digest, from store: some FleetStore) async throws {
        guard let bytes = try await store.object(digest) else {
            throw FleetError(
                .malformed,
                "the store does not have the list of the enrolled devices of a rollout, whose SHA-256 is \(digest)",
                hint: "end the rollout with otaflash rollout abort, and create it again with another name")
        }
        try self.init(parsing: bytes)
    }
}
