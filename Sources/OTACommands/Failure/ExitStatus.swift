/// What the process ends with (docs/command-line.md). A script tells kinds of failure apart by it, and failures by their code.
package enum ExitStatus: Int32, Sendable, CaseIterable {
    case done = 0
    case usage = 64
    /// A bundle, key or image is not what its format says.
    case malformed = 65
    case noInput = 66
    /// No way to the device, or another process has it.
    case unavailable = 69
    /// A fault of ours.
    case fault = 70
    case cannotCreate = 73
    case inputOutput = 74
    /// It may go better the next time: the link was lost.
    case linkLost = 75
    case protocolBroken = 76
    case refused = 77
    /// The device runs its old image again.
    case rolledBack = 78
    case interrupted = 130
    case terminated = 143
}
