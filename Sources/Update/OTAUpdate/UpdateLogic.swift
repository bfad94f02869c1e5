public import OTAFirmware

/// The logic of one update, as a value without side effects. The value receives events and returns actions.
///
/// The value has no clock, socket, file, task or lock. The caller passes the current time with each event. So the same code runs in real
/// and in virtual time, and a test can inject a fault after each event. `UpdateSession` is the implementation.
public protocol UpdateLogic: Sendable {
    /// The deadline of the current step, as the time since the start of the session; nil if the current step has no deadline. When the
    /// deadline has passed, the caller must call `handle(_:at:)` with the event `deadlinePassed`.
    var deadline: Duration? { get }

    /// Handles an event.
    ///
    /// - Parameter now: the time since the start of the session; never earlier than in the previous call.
    /// - Returns: the actions to perform, in order.
    mutating func handle(_ event: UpdateEvent, at now: Duration) -> [UpdateAction]
}

/// An event for a session.
public enum UpdateEvent: Sendable, Equatable {
    /// The session starts. This event is always the first one, and occurs only once.
    case started
    case linkUp(LinkProperties)
    case link(LinkEvent)
    /// The link ended, or could not be opened.
    case linkDown(LinkError)
    /// The result of the action `encode` with this request. Nil: the runner has no encoder.
    case encoded(EncodingRequest, Result<EncodedImage, EncodingFailure>?)
    /// The session's deadline has passed.
    case deadlinePassed
    /// The user or the time limit stops the session. The session closes the link and fails with `UpdateError.Code.interrupted`.
    case interrupted
}

/// The device to which a session opens its next link. A conversation sets it in `ConversationState.target`.
public enum LinkTarget: Sendable, Hashable {
    /// The device of the session, at its known address.
    case device
    /// The program of the device that runs, such as the application or the firmware loader. It has the address of the device, or the name
    /// `LinkProperties.programName`, and its own attribute table.
    case program
}

/// An action that a session requests from its runner. The runner performs the actions in order.
public enum UpdateAction: Sendable, Equatable {
    /// Opens a new link to the target. The runner first closes the previous link. The runner answers with the event `linkUp` or `linkDown`.
    case connect(LinkTarget = .device)
    /// Opens a new link to the restarted device, as `connect` does. If the device does not appear, the link can be to a candidate: a device
    /// that looks like the device and has another address. A candidate in `rejected` is left alone.
    case find(rejected: Set<String>)
    /// The candidate of the open link is the device. From now on, `connect` opens links to its address.
    case acceptCandidate
    /// Closes the link. The runner answers with the event `linkDown`.
    case disconnect
    /// Performs a command on the open link. If no link is open, the runner discards the command.
    case link(LinkCommand)
    /// Encodes the image of the push. The runner encodes while the session continues, and answers with the event `encoded`. A session waits
    /// for this event before it requests the next encoding.
    case encode(EncodingRequest)
    case report(UpdateProgress)
    /// Enters a stage (`StageGate`). If the caller does not permit the stage, the runner ends the session before the next action.
    ///
    /// - `after`: the failed attempt to connect after which the session stays in `UpdateStage.searching`; nil for all other transitions.
    case stage(UpdateStage, after: LinkError? = nil)
    /// The last action: the session has succeeded.
    case finish(UpdateReport)
    /// The last action: the session has failed.
    case fail(UpdateError)
}

/// A request of a session to encode the image of its push, from an offset to the end of the image.
public struct EncodingRequest: Sendable, Equatable {
    /// The position of the first image byte to encode, in bytes.
    public var offset: Int
    /// The base of the delta: a possible running image of the device. Nil: the image is only compressed.
    public var base: BaseImage?

    public init(offset: Int, base: BaseImage? = nil) {
        self.offset = offset
        self.base = base
    }
}

/// A progress event of a session.
public enum UpdateProgress: Sendable, Equatable {
    case phase(UpdatePhase)
    /// The device has acknowledged `offset` of `total` image bytes. This run has sent `sent` bytes over the link, including the bytes that
    /// it sent again.
    case transferred(offset: Int, total: Int, sent: Int)
    /// The next part of the image is sent encoded. `plainBytes` is the size of the part, and `bytes` is the size of its encoded form. If
    /// `base` is nil, the part is only compressed.
    ///
    /// The session reports this event when the first encoded part begins, and when a later part begins with another base.
    case encoding(base: BaseImage?, bytes: Int, plainBytes: Int)
    /// The image, or the rest of the image, is sent plain. Not reported for the reasons `asked` and `notOffered`.
    case plain(TransferReport.PlainReason)
    /// An attempt to reach the device failed before the device answered for the first time. The session tries again.
    case connectionFailed(LinkError)
    case linkLost(LinkError)
    /// A link is open again after `linkLost`, or after a restart of the device.
    case reconnected
    /// The transfer resumes at `offset`, in bytes, after a lost link or after an earlier run.
    case resumed(offset: Int, total: Int)
    /// The transfer starts at 0, because the device has no partial upload of this bundle or image. Reported only with
    /// `UpdateOptions.Resume.expected`.
    case nothingToResume
    /// The device discards a partial upload of `offset` bytes. There are three reasons: the partial upload is of another bundle, its bytes
    /// differ from the image, or `UpdateOptions.Resume.never` was given. The task `discard` reports this event, too.
    case discarded(offset: Int)
    /// Chunks were lost. The device requests the bytes from `offset` on.
    case gap(offset: Int)
    /// The device has only `offset` bytes, fewer than it had acknowledged before. The usual reason is a restart during the transfer.
    case deviceReset(offset: Int)
    /// The device has acknowledged all bytes of an image.
    case uploaded(TransferReport)
    case confirmed(version: String)
    /// The version of the update is lower than the running version, and `UpdateOptions.refusesDowngrade` is false.
    case downgrade(version: String, running: String)
    case note(String)
}

/// A phase of an update, as the progress reports name it.
public enum UpdatePhase: String, Sendable, CaseIterable {
    case connect
    /// Read the device's status, and check that the device can install the update.
    case preflight
    /// Send the envelope (manifest and signatures), which the device verifies.
    case envelope
    case transfer
    /// The device reads the image from flash and compares its digest.
    case verify
    /// Mark the image for boot.
    case apply
    /// The device restarts with the new image.
    case restart
    case confirm
}
