import ArgumentParser

/// The root of the command line.
struct RootCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "otaflash",
        abstract: "Sign firmware and update devices safely over BLE, UDP or serial.",
        discussion: """
            First run, without hardware:
              otaflash keygen release
              otaflash sign app.bin --key release.pem --product demo --version 1.1.0
              otaflash push app.bin.otaf --device sim: --trust release.pub.pem

            'otaflash --version' prints the version. \
            'otaflash --generate-completion-script bash' (or zsh, fish) prints shell completions.
            """,
        groupedSubcommands: [
            CommandGroup(name: "Firmware", subcommands: [Keygen.self, Sign.self, Verify.self, Inspect.self]),
            CommandGroup(
                name: "Device",
                subcommands: [Scan.self, Push.self, Status.self, Confirm.self, Discard.self, Identify.self]),
            CommandGroup(name: "Simulation", subcommands: [Simulate.self]),
            CommandGroup(name: "This machine", subcommands: [Doctor.self, Gatt.self]),
        ])

    @OptionGroup(title: "Output options") var options: OutputOptions
}
