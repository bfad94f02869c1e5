public import BlueZ
import Glibc
import TerminalText

/// Prints a line at once. `print` alone keeps lines in a buffer if the output is a pipe or a file.
public func report(_ line: String) {
    print(line)
    fflush(nil)
}

/// A failure as a sentence for the user. swift-argument-parser prints the description of an error on standard error, and ends the program
/// with the exit code 1.
public struct Failure: Error, CustomStringConvertible {
    public let description: String

    public init(_ description: String) { self.description = description }

    /// Describes a Bluetooth error. Its context can have the name of a device, which is text of another machine.
    public init(_ error: BlueZError) {
        let hint =
            switch error.code {
            case .serviceUnavailable: "; hint: systemctl start bluetooth"
            case .adapterOff: "; hint: bluetoothctl power on"
            case .noSuchAdapter: "; hint: bluetoothctl list shows the adapters"
            case .busUnavailable: "; hint: systemctl status dbus, and start this program again"
            case .accessDenied: "; hint: sudo usermod -aG bluetooth $USER, and log in again"
            default: ""
            }
        description = shown(error.context) + hint
    }
}

/// The failure of a program that has not delivered its messages. The user sees it also after a signal.
public struct Undelivered: Error, CustomStringConvertible {
    public let description: String

    public init(_ description: String) { self.description = description }
}

/// Describes an error for the user.
public func sentence(_ error: any Error) -> String { "\((error as? BlueZError).map(Failure.init) ?? error)" }
