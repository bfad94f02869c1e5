// swift-tools-version: 6.2
import PackageDescription

// The decoders with libFuzzer (scripts/fuzz). This is a separate package because it needs an unsafe flag.

let package = Package(
    name: "fuzz",
    dependencies: [.package(name: "otaflash", path: "..")],
    targets: [
        .executableTarget(
            name: "fuzz", dependencies: [.product(name: "_FuzzTargets", package: "otaflash")],
            // libFuzzer provides the main function.
            swiftSettings: [.treatAllWarnings(as: .error), .unsafeFlags(["-parse-as-library"])])
    ],
    swiftLanguageModes: [.v6]
)
