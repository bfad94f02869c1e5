import ArgumentParser

/// The command line as a whole.
struct RootCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "otaflash",
        abstract: "Signs firmware, and sends it over Bluetooth LE such that the device survives it.",
        discussion: """
            A first run, without any hardware:
              otaflash keygen release
              otaflash sign app.bin --key release.pem --product demo --version 1.1.0
              otaflash push app.bin.otaf --device sim: --trust release.pub.pem

            'otaflash --version' prints the version; \
            'otaflash --generate-completion-script bash' (or zsh, fish) what completes these words in a shell.
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
