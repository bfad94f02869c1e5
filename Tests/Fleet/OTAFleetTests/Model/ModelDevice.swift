import OTAFleet

/// A device of a model world: a slot that keeps the received chunks, a trial with a time limit, and the owner rule.
///
/// The rules are those of docs/ota-profile.md, reduced to the facts that matter for a fleet.
final class ModelDevice {
    enum Status: Equatable {
        case old, trial, confirmed
        /// The device restarts, or its image does not start.
        case unreachable
    }

    static let chunks = 12
    /// The time limit of a trial, in ms.
    static let trialTime = 30_000

    let id: DeviceID
    let imageIsBad: Bool
    private(set) var offset = 0
    private(set) var isConfirmed = false
    private(set) var trialEnd: Int?
    /// The push whose BEGIN came last. Only its chunks are accepted.
    private var owner = 0
    /// The number of the last push with an accepted chunk or APPLY.
    private var lastAccepted = 0

    private(set) var acceptedChunks = 0
    private(set) var refusedChunks = 0
    private(set) var applies = 0
    private(set) var confirmations = 0
    /// True if the device accepted a message of an older push after a newer push.
    private(set) var hasMixedPushes = false

    init(_ id: DeviceID, imageIsBad: Bool) {
        self.id = id
        self.imageIsBad = imageIsBad
    }

    func status(at now: Int) -> Status {
        if let trialEnd, now >= trialEnd { self.trialEnd = nil }
        if isConfirmed { return .confirmed }
        guard trialEnd != nil else { return .old }
        return imageIsBad ? .unreachable : .trial
    }

    /// Starts or resumes a transfer. The push becomes the owner.
    func begin(_ push: Int) -> Int {
        owner = push
        return offset
    }

    func accept(chunk: Int, of push: Int) -> Bool {
        guard push == owner, chunk == offset, offset < Self.chunks else {
            refusedChunks += 1
            return false
        }
        offset += 1
        acceptedChunks += 1
        noteAccepted(push)
        return true
    }

    func apply(_ push: Int, at now: Int) -> Bool {
        guard push == owner, offset == Self.chunks, status(at: now) == .old else { return false }
        applies += 1
        trialEnd = now + Self.trialTime
        noteAccepted(push)
        return true
    }

    func confirm(at now: Int) -> Bool {
        guard status(at: now) == .trial else { return false }
        trialEnd = nil
        isConfirmed = true
        confirmations += 1
        return true
    }

    private func noteAccepted(_ push: Int) {
        if push < lastAccepted { hasMixedPushes = true }
        lastAccepted = max(lastAccepted, push)
    }
}
