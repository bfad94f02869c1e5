// swift-tools-version: 6.2
import PackageDescription

// Examples of programs that use the libraries of otaflash. This is a package of its own, and it depends on otaflash by URL and version,
// as any other package does. The URL is a placeholder until the first release. scripts/examples builds it against a tagged clone of this checkout.

let warnings: [SwiftSetting] = [.treatAllWarnings(as: .error)]

let package = Package(
    name: "otaflash-examples",
    dependencies: [
        .package(url: "https://example.com/otaflash/otaflash", from: "0.1.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
    ],
    targets: [
        .executableTarget(
            name: "sign-and-verify",
            dependencies: [
                .product(name: "OTASigning", package: "otaflash"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: warnings),
        .executableTarget(
            name: "push-with-progress", dependencies: [.product(name: "OTAClient", package: "otaflash")],
            swiftSettings: warnings),
        .executableTarget(
            name: "bluez-explore", dependencies: [.product(name: "BlueZ", package: "otaflash")], swiftSettings: warnings
        ),
        .executableTarget(
            name: "dbus-names", dependencies: [.product(name: "DBus", package: "otaflash")], swiftSettings: warnings),
        .executableTarget(
            name: "largest-image", dependencies: [.product(name: "COTADevice", package: "otaflash")],
            cSettings: [.treatAllWarnings(as: .error)]),

        // Text of another machine for the terminal.
        .target(name: "TerminalText", swiftSettings: warnings),

        // What the examples with two ends share: options, the end of a server by a signal, errors as sentences, and the terminal.
        .target(
            name: "ExampleSupport",
            dependencies: [
                "TerminalText", .product(name: "BlueZ", package: "otaflash"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "SystemPackage", package: "swift-system"),
            ], swiftSettings: warnings),
        .testTarget(
            name: "ExampleSupportTests",
            dependencies: ["ExampleSupport", "TerminalText", .product(name: "BlueZ", package: "otaflash")],
            swiftSettings: warnings),

        // A Bluetooth LE calculator, both ends.
        .target(
            name: "Calculator", dependencies: [.product(name: "BlueZ", package: "otaflash")],
            swiftSettings: warnings),
        .executableTarget(
            name: "ble-calculator",
            dependencies: [
                "Calculator", "ExampleSupport", .product(name: "BlueZ", package: "otaflash"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: warnings),
        .testTarget(
            name: "CalculatorTests", dependencies: ["Calculator", .product(name: "BlueZ", package: "otaflash")],
            swiftSettings: warnings),

        // An iBeacon with a configuration service, and its manager.
        .target(
            name: "BeaconProtocol", dependencies: [.product(name: "BlueZ", package: "otaflash")],
            swiftSettings: warnings),
        .executableTarget(
            name: "ble-beacon",
            dependencies: [
                "BeaconProtocol", "ExampleSupport", .product(name: "BlueZ", package: "otaflash"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: warnings),
        .testTarget(
            name: "BeaconProtocolTests",
            dependencies: ["BeaconProtocol", .product(name: "BlueZ", package: "otaflash")], swiftSettings: warnings),

        // A scanner and a peripheral over the Nordic UART service. SHA-256 and CRC-32 are from OTASigning.
        .target(
            name: "UARTProtocol",
            dependencies: [
                "TerminalText", .product(name: "BlueZ", package: "otaflash"),
                .product(name: "OTASigning", package: "otaflash"),
            ],
            swiftSettings: warnings),
        .executableTarget(
            name: "ble-uart",
            dependencies: [
                "ExampleSupport", "TerminalText", "UARTProtocol", .product(name: "BlueZ", package: "otaflash"),
                .product(name: "OTASigning", package: "otaflash"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: warnings),
        .testTarget(
            name: "UARTProtocolTests",
            dependencies: [
                "ExampleSupport", "UARTProtocol", .product(name: "BlueZ", package: "otaflash"),
                .product(name: "OTASigning", package: "otaflash"),
            ], swiftSettings: warnings),

        // A chat between two equal peers.
        .target(
            name: "ChatProtocol",
            dependencies: [
                "TerminalText", .product(name: "BlueZ", package: "otaflash"),
                .product(name: "OTASigning", package: "otaflash"),
            ],
            swiftSettings: warnings),
        .executableTarget(
            name: "ble-chat",
            dependencies: [
                "ChatProtocol", "ExampleSupport", "TerminalText", .product(name: "BlueZ", package: "otaflash"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: warnings),
        .testTarget(
            name: "ChatProtocolTests", dependencies: ["ChatProtocol", .product(name: "BlueZ", package: "otaflash")],
            swiftSettings: warnings),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c99
)
