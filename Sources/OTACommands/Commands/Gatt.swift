import ArgumentParser

struct Gatt: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "gatt", abstract: "Look at any Bluetooth device's services, for bringing firmware up.",
        discussion: """
            For example: 'otaflash gatt read ble:AA:BB:CC:DD:EE:FF 2a19'. A characteristic is named by its UUID, short or \
            long; values are hex digits.
            """,
        subcommands: [GattServices.self, GattRead.self, GattWrite.self, GattNotify.self])
}
