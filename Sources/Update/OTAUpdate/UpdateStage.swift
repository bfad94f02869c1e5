/// The stage of an update. All code that makes a decision reads the stage. Progress reports (`UpdateProgress`) are only for people.
///
/// A session enters each stage with the action `UpdateAction.stage`, before it does what the stage permits. The cases are in the order of a
/// push. A session can omit stages, and it can return to `sending`. Its transitions are in docs/architecture.md, "The session".
public enum UpdateStage: Sendable, Comparable, CaseIterable {
    /// The device has not answered yet.
    case searching
    /// The device answers. The session sends only requests that do not change the flash of the device.
    case asking
    /// The session changes the device, for example sends an image. After an interrupt, another session can resume.
    case sending
    /// The device may boot the new image. From now on, an interrupt would only prevent the confirmation of this image.
    case marked
    /// The session has requested a restart.
    case restarting
    /// The session confirms the image on trial.
    case confirming
}

/// A function that the runner calls each time that the session enters a stage.
///
/// The error is the failed attempt to connect after which a session stays in `UpdateStage.searching`; nil for all other transitions. If the
/// function returns false, the session ends with the error `interrupted` before the stage begins.
public typealias StageGate = @Sendable (UpdateStage, LinkError?) -> Bool
