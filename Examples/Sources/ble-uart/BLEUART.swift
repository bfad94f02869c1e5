import ArgumentParser

@main
struct BLEUART: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ble-uart", abstract: "Exchange texts and an image over the Nordic UART service.",
        discussion: """
            ble-uart serve             be a peripheral
            ble-uart                   list the devices in range, and connect to one
            ble-uart image photo.png   receive the image of a peripheral
            """,
        subcommands: [Connect.self, Image.self, Serve.self], defaultSubcommand: Connect.self)
}
