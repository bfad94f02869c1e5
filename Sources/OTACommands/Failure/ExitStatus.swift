/// The exit status of the process (docs/command-line.md). It groups failures by kind; the error code identifies the failure.
package enum ExitStatus: Int32, Sendable, CaseIterable {
    case done = 0
    case usage = 64
    /// A bundle, key or image violates its format.
    case malformed = 65
    case noInput = 66
    /// The device cannot be reached, or another process uses it.
    case unavailable = 69
    /// A bug in otaflash.
    case fault = 70
    case cannotCreate = 73
    case inputOutput = 74
    /// The link was lost or timed out; a retry may succeed.
    case linkLost = 75
    case protocolBroken = 76
    case refused = 77
    /// The device runs its old image again.
    case rolledBack = 78
    case interrupted = 130
    case terminated = 143
}
