import Glibc
import SystemPackage

/// The program `otaflash-fleet`, which contains the commands for fleets.
///
/// These commands need libnats and SQLite. They are in a program of their own, so that `otaflash` does not need these libraries.
enum FleetProgram {
    static let name = "otaflash-fleet"
    /// The commands in the program.
    static let commands = ["fleet", "gateway", "release", "rollout", "device"]

    /// Runs the program in place of this process, if the arguments are for one of its commands. Then this function does not return.
    ///
    /// The program also prints the completion scripts of both programs. Without the program, `otaflash` prints a script with its own
    /// commands.
    ///
    /// - Returns: the failure if the program cannot be started; nil if the arguments are not for the program.
    static func run(_ arguments: [String]) -> Failure? {
        if arguments.first == Completions.option {
            _ = start(arguments, for: "")
            return nil
        }
        guard let command = command(in: arguments), commands.contains(command) else { return nil }
        return start(arguments, for: command)
    }

    /// Returns the word at the place of the command; nil if there is no such word, or it is a command of `otaflash`.
    private static func command(in arguments: [String]) -> String? {
        guard let first = arguments.first else { return nil }
        if first == "help" || first == Completions.request { return arguments.dropFirst().first }
        guard first.hasPrefix("-") else { return first }
        // Options before the command, such as --format json.
        return CommandLineReading(of: RootCommand.self, arguments).unknownCommand
    }

    private static func start(_ arguments: [String], for command: String) -> Failure {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &buffer, buffer.count)
        let own = String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
        let path = FilePath(own).removingLastComponent().appending(name)
        let pointers = ([path.string] + arguments).map { strdup($0) }
        defer { pointers.forEach { free($0) } }
        execv(path.string, pointers + [nil])
        let error = Errno(rawValue: errno)
        return Failure(
            "no-fleet-program", .unavailable,
            "the command '\(command)' needs the program \(name), and \(path) cannot be started: \(error)",
            hint: "install its package: apt install ./\(name)_\(Version.number)_*.deb; or copy \(name) of version "
                + "\(Version.number) to the folder \(path.removingLastComponent())")
    }
}
