import ArgumentParser

/// The group of commands for GATT services.
struct Gatt: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "gatt", abstract: "Read and write the GATT services of any Bluetooth device.",
        discussion: """
            Example: 'otaflash gatt read ble:AA:BB:CC:DD:EE:FF 2a19'. UUIDs are 16-bit (2a19) or 128-bit. Values are hex \
            digits.
            """,
        subcommands: [GattServices.self, GattRead.self, GattWrite.self, GattNotify.self])
}
