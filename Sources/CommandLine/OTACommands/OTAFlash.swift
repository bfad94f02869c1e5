package import ArgumentParser

/// The entry point of the command line tool.
public enum OTAFlash {
    /// Runs the command line tool.
    ///
    /// - Parameter commandLine: the name of the program, and the arguments. Swift reads them from /proc/self/cmdline. If it cannot read
    ///   them, the array is empty.
    /// - Returns: the exit status of the process.
    public static func run(_ commandLine: [String]) async -> Int32 {
        await CommandLineTool(RootCommand.self).run(commandLine)
    }

    /// The commands of `otaflash`, in the groups of its help.
    package static let commands = [
        CommandGroup(name: "Firmware", subcommands: [Keygen.self, Sign.self, Verify.self, Inspect.self, Attest.self]),
        CommandGroup(
            name: "Device",
            subcommands: [Scan.self, Push.self, Status.self, Confirm.self, Discard.self, Restart.self, Identify.self]),
        CommandGroup(name: "Simulation", subcommands: [Simulate.self]),
        CommandGroup(name: "Diagnostic", subcommands: [Doctor.self, Gatt.self, CheckDevice.self]),
    ]
}

/// The root of the command line.
struct RootCommand: RootGroup {
    static let hint = "to start, create a key: otaflash keygen NAME"
    static let firstRun = """
        First run, without hardware:
          seq 20000 | tr 0 '\\0' > app.bin    # or use your own image
          otaflash keygen release
          otaflash sign app.bin --key release.pem --product demo --version 1.1.0
          otaflash push app.bin.otaf --device sim: --trust release.pub.pem
        """
    static let configuration = CommandConfiguration(
        commandName: "otaflash",
        abstract: "Sign firmware and update devices safely over BLE, UDP or serial.",
        discussion: """
            \(firstRun)

            To update a fleet of devices in stages, use the commands fleet, gateway, release, rollout and \
            device. They require the program otaflash-fleet. Introduction: otaflash fleet --help

            'otaflash --version' prints the version.
            'otaflash --generate-completion-script bash' prints completions for a shell
            (bash, zsh or fish).
            """,
        groupedSubcommands: OTAFlash.commands)

    @OptionGroup(title: "Output options") var options: OutputOptions

    static var otherCommands: [String] { FleetProgram.commands }

    static func handOver(_ arguments: [String]) -> Failure? { FleetProgram.run(arguments) }
}

/// The version of this release. A test compares this version with the first heading of CHANGELOG.md.
package enum Version {
    package static let number = "0.1.0"
    /// The output of `--version`.
    package static let line = "otaflash \(number)"
}
