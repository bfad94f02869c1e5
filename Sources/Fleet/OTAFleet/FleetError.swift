public import OTASigning

/// The reason why a record, a bundle or a change is not accepted, or why a key did not sign. Two errors are equal if their codes are equal.
public struct FleetError: Error, Sendable, Equatable {
    /// Identifies the error for scripts. The raw values do not change between releases.
    public enum Code: String, Sendable, CaseIterable {
        /// The record is not valid JSON of the expected kind, or one of its values is invalid.
        case malformed = "record-malformed"
        /// A newer version of otaflash wrote the record. The record must not be rewritten.
        case tooNew = "too-new"
        /// The record has more than 4096 bytes.
        case tooLarge = "record-too-large"
        /// No accepted key signed the record, its signature is invalid, or the store has the record under the name of another record. Also:
        /// the key that should sign a new record is not an operator's key.
        case untrusted = "record-untrusted"
        /// The record is older than an accepted version of the same record, or it has the same serial and different contents.
        case rollbackSeen = "rollback-seen"
        /// The wall clock is not set, or it is more than 300 s before the creation of the rollout.
        case clockNotSet = "clock-not-set"
        /// The rollout expired more than 300 s ago.
        case expired = "rollout-expired"
        /// The bundle is not the bundle of the release.
        case badRelease = "bad-release"
        /// The device's record does not allow the change, because of its state, its holder, or its job of a newer rollout. Also: another
        /// process has changed a record at the same time.
        case staleRecord = "stale-record"
        /// The new rollout or the change of a rollout is not allowed, for example because the rollout is aborted.
        case badChange = "bad-rollout-change"
        /// The key could not sign.
        case signingFailed = "signing-failed"
    }

    public var code: Code
    /// A description of the problem for the user, without a full stop at the end.
    public var context: String
    /// The recommended next step, for example a command; nil if no step is recommended.
    public var hint: String?
    /// The error of the key, for `signing-failed`; nil for the other codes.
    public var cause: KeyError?

    public init(_ code: Code, _ context: String, hint: String? = nil, cause: KeyError? = nil) {
        self.code = code
        self.context = context
        self.hint = hint
        self.cause = cause
    }

    public static func == (left: FleetError, right: FleetError) -> Bool { left.code == right.code }

    static func malformed(_ context: String) -> FleetError { FleetError(.malformed, context) }
}
