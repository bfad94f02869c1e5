// swift-tools-version: 6.2
import PackageDescription

// Examples of programs that use the libraries of otaflash. This is a package of its own, and it depends on otaflash by URL and version,
// as any other package does. The URL is a placeholder until the first release. scripts/examples builds it against a tagged clone of this checkout.

let warnings: [SwiftSetting] = [.treatAllWarnings(as: .error)]

let package = Package(
    name: "otaflash-examples",
    dependencies: [
        .package(url: "https://example.com/otaflash/otaflash", from: "0.1.0"),
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

        // A Bluetooth LE calculator, both ends.
        .target(
            name: "Calculator", dependencies: [.product(name: "BlueZ", package: "otaflash")],
            swiftSettings: warnings),
        .testTarget(
            name: "CalculatorTests", dependencies: ["Calculator", .product(name: "BlueZ", package: "otaflash")],
            swiftSettings: warnings),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c99
)
