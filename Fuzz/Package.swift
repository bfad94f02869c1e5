// swift-tools-version: 6.2
import PackageDescription

// The decoders under libFuzzer (scripts/fuzz). A package of its own, as it needs an unsafe flag.

let package = Package(
    name: "fuzz",
    dependencies: [.package(name: "otaflash", path: "..")],
    targets: [
        .executableTarget(
            name: "fuzz", dependencies: [.product(name: "FuzzTargets", package: "otaflash")],
            // The main function is libFuzzer's.
            swiftSettings: [.treatAllWarnings(as: .error), .unsafeFlags(["-parse-as-library"])])
    ],
    swiftLanguageModes: [.v6]
)
