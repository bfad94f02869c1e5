import BlueZ
import Glibc
import OTAArchive
import OTAClient
import OTAEngine
import OTAFirmware
import OTASigning
import OTASimulator
import OTAUpdate

/// The error of a command for the user and for scripts.
package struct Failure: Error, Sendable {
    /// The error code. It is the same in every version of otaflash, and `docs/errors.md` documents it.
    package var code: String
    /// The description of the failure, without a full stop.
    package var message: String
    /// The next steps for the user. otaflash prints each element on its own line, without wrapping.
    package var hints: [String]
    package var exit: ExitStatus
    /// The usage text of the command. It is shown below the message. JSON output does not contain it.
    var usage: [String] = []

    package init(_ code: String, _ exit: ExitStatus, _ message: String, hints: [String]) {
        self.code = code
        self.message = message
        self.hints = hints
        self.exit = exit
    }

    package init(_ code: String, _ exit: ExitStatus, _ message: String, hint: String) {
        self.init(code, exit, message, hints: [hint])
    }

    /// All hints as one text, for scripts.
    package var hint: String { hints.joined(separator: "\n") }

    /// The failure in a few words, for example `refused: wrong product`.
    var short: String { "\(exit == .refused ? "refused" : "failed"): \(code.replacing("-", with: " "))" }

    /// Creates the failure for an invalid argument.
    package static func usage(_ message: String, hint: String) -> Failure {
        Failure("usage", .usage, message, hint: hint)
    }

    /// Creates the failure for a signal that arrived before the command changed anything. So the hint does not describe how to resume an
    /// upload.
    package static func interrupted(by signal: Int32) -> Failure {
        Failure(
            "interrupted", signal == SIGTERM ? .terminated : .interrupted, "interrupted",
            hint: "nothing was changed; run the command again")
    }
}

/// The exit status of the process (docs/command-line.md). Several error codes can have the same exit status.
package enum ExitStatus: Int32, Sendable, CaseIterable {
    case done = 0
    case usage = 64
    /// A bundle, key or image violates its format.
    case malformed = 65
    case noInput = 66
    /// This machine lacks something, such as an adapter. The same command fails again until this changes.
    case unavailable = 69
    /// A bug in otaflash.
    case fault = 70
    case cannotCreate = 73
    case inputOutput = 74
    /// The device was not reached, was in use or busy, or its link was lost; the same command may succeed later.
    case linkLost = 75
    case protocolBroken = 76
    case refused = 77
    /// The device rolled back to its old image.
    case rolledBack = 78
    /// A command for several devices: at least one device failed for a reason that the same command does not correct.
    case someFailed = 79
    case interrupted = 130
    case terminated = 143

    /// The exit status of a command for several devices.
    ///
    /// - Parameter failures: the failures of devices. A device that was not started has no failure; the same command starts it.
    static func several(_ failures: [Failure]) -> ExitStatus {
        if failures.contains(where: { $0.exit == .rolledBack }) { return .rolledBack }
        // For example, bluetoothd does not run. That is no fault of a device.
        let others = failures.filter { $0.exit != .linkLost }
        guard others.allSatisfy({ $0.code == UpdateError.Code.linkUnavailable.rawValue }) else { return .someFailed }
        return others.isEmpty ? .linkLost : .unavailable
    }
}

extension Failure {
    /// Creates the failure for arguments that argument-parser rejected.
    ///
    /// - Parameters:
    ///   - message: the reason.
    ///   - usage: the usage of the command, without the word `Usage`.
    ///   - help: the command that shows the help.
    init(parsing message: String, usage: String, help: String) {
        // argument-parser lists many possible values on separate lines. A message has one line.
        let line = message.replacing(":\n  - ", with: ": ").replacing("\n  - ", with: ", ")
        self = .usage(line.isEmpty ? "invalid arguments" : line, hint: "show the help: \(help)")
        self.usage = HelpPage.usage("Usage: \(usage)").map(String.init)
    }

    /// Creates the failure for a command line without the name of a subcommand.
    init(missingCommand help: String, hint: String) {
        self = .usage("the command is missing", hint: hint)
        usage = help.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    }
}

extension Failure {
    /// Creates the failure for any error of a command.
    package init(_ error: any Error, in invocation: Invocation) {
        switch error {
        case let failure as Failure: self = failure
        case let error as any FailureCause: self = error.failure
        case let error as UpdateError: self.init(error, in: invocation)
        case let error as BundleError: self.init(error, in: invocation)
        case let error as ImageError: self.init(error, in: invocation)
        case let error as ZipError: self.init(error, in: invocation)
        case let error as PackagedImageError:
            self.init(error.cause, in: Invocation(command: "inspect", file: error.file))
        case let error as PackageError: self.init(error, in: invocation)
        case let error as HexError: self.init(error, in: invocation)
        case let error as KeyError: self.init(error, in: invocation)
        case let error as VerificationError: self.init(error, in: invocation)
        case let error as SigningError: self.init(error, in: invocation)
        case let error as AttestationError: self.init(error, in: invocation)
        case let error as VirtualDeviceError: self.init(error, in: invocation)
        case let error as AddressError: self = .usage(error.context, hint: error.hint)
        case let error as ClientError: self.init(error)
        case let error as BlueZError: self.init(error, in: invocation)
        default:
            self.init(
                "internal", .fault, "internal error in otaflash: \(error)",
                hint: "report this bug with the log of: \(invocation.line(adding: "--log otaflash.log"))")
        }
    }
}

/// An error of a module that this module does not import, such as an error of a fleet's store.
package protocol FailureCause: Error {
    var failure: Failure { get }
}
