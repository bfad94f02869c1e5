// swift-tools-version: 6.2
import PackageDescription

// The targets follow the path of the data (docs/architecture.md):
//
//     firmware file → SignedBundle → VerifiedBundle → UpdateSession ⇄ events/actions → Link → device → trial → confirmed
//
// Code is in a target of its own if the compiler must forbid an import. The build uses
// `--explicit-target-dependency-import-check error`, so an import that the manifest does not allow does not compile.
// The folders in Sources/ and Tests/ are the wings of Sources/README.md.

let swift: [SwiftSetting] = [
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]
let c: [CSetting] = [
    .treatAllWarnings(as: .error), .enableWarning("all"), .enableWarning("extra"), .enableWarning("conversion"),
]
// A release binary contains the Swift runtime. It contains no symbols and no exported names, because these would take 760 kB. The flags are
// only for the linker. `--static-swift-stdlib` would also change each compilation. The tests link the runtime dynamically, so they could
// then not use the same compiled modules. Without `--static-swift-stdlib`, the linker does not find two parts of FoundationEssentials, so
// the flags name them. Under a sanitizer (scripts/sanitize), the runtime is linked dynamically, because the sanitizer must be between the
// program and the runtime.
let selfContained: [LinkerSetting] =
    Context.environment["OTAFLASH_SANITIZED"] != nil
    ? []
    : [
        .unsafeFlags(
            [
                "-static-stdlib", "-l_FoundationCollections", "-l_FoundationCShims", "-Xlinker", "-s",
                "-Xlinker", "--no-export-dynamic", "-Xlinker", "--exclude-libs=ALL",
            ],
            .when(configuration: .release))
    ]
// The Debian package of otaflash-fleet contains libnats in this folder (scripts/release.d/package-deb). The path is absolute, so that a file
// beside a downloaded program is never loaded.
let privateLibraries: [LinkerSetting] = [
    .unsafeFlags(["-Xlinker", "-rpath", "-Xlinker", "/usr/lib/otaflash-fleet"], .when(configuration: .release))
]

// A target is one line: its folder, and the modules that it imports.

let packages = [
    "ArgumentParser": "swift-argument-parser", "Logging": "swift-log", "Subprocess": "swift-subprocess",
    "SystemPackage": "swift-system",
]
func name(of folder: String) -> String { folder.split(separator: "/").suffix(1).joined() }
func modules(_ names: String) -> [Target.Dependency] {
    names.split(separator: " ").map(String.init).map { name in
        packages[name].map { .product(name: name, package: $0) } ?? .byName(name: name)
    }
}
func library(_ folder: String, imports: String = "") -> Target {
    .target(name: name(of: folder), dependencies: modules(imports), path: folder, swiftSettings: swift)
}
func libraryInC(_ folder: String, imports: String = "") -> Target {
    .target(name: name(of: folder), dependencies: modules(imports), path: folder, cSettings: c)
}
func systemLibrary(_ name: String, _ pkgConfig: String? = nil, debian package: String? = nil) -> Target {
    .systemLibrary(
        name: name, path: "Sources/System/" + name, pkgConfig: pkgConfig, providers: package.map { [.apt([$0])] })
}
func program(_ folder: String, imports: String, linker: [LinkerSetting] = []) -> Target {
    .executableTarget(
        name: name(of: folder), dependencies: modules(imports), path: folder, swiftSettings: swift,
        linkerSettings: linker)
}
func tests(_ folder: String, imports: String, exclude: [String] = []) -> Target {
    .testTarget(
        name: name(of: folder), dependencies: modules(imports), path: folder, exclude: exclude, swiftSettings: swift)
}

let package = Package(
    name: "otaflash",
    products: [
        .executable(name: "otaflash", targets: ["otaflash"]),
        .executable(name: "otaflash-fleet", targets: ["otaflash-fleet"]),
        // The libraries for other packages. The targets of these libraries have no unsafe flags (docs/decisions/0016-products.md).
        // scripts/examples checks this, and builds another package with the libraries.
        // This product has four targets, because the interface of OTAClient uses the types of the other three.
        .library(name: "OTAClient", targets: ["OTAClient", "OTASigning", "OTAFirmware", "OTAUpdate"]),
        .library(name: "BlueZ", targets: ["BlueZ"]),
        .library(name: "DBus", targets: ["DBus"]),
        // The interface of OTASigning uses the types of OTAFirmware.
        .library(name: "OTASigning", targets: ["OTASigning", "OTAFirmware"]),
        .library(name: "COTADevice", targets: ["COTADevice", "COTAEd25519"]),
        .library(name: "NATS", targets: ["NATS"]),
        // Not for users: only the package in Fuzz/ uses this product.
        .library(name: "_FuzzTargets", targets: ["FuzzTargets"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
        .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.2", traits: []),
    ],
    targets: [
        // Signing: firmware files and bundles; signatures and trusted keys. OTASigners: private keys in a PKCS#11 token or behind a program.
        // OTAArchive: zip files with several images. OTAEncoding: images that are encoded for the transfer.
        library("Sources/Signing/OTAFirmware"),
        library("Sources/Signing/OTASigning", imports: "COpenSSL OTAFirmware SystemPackage"),
        library("Sources/Signing/OTASigners", imports: "CPKCS11 DescriptorIO OTAFirmware OTASigning SystemPackage"),
        library("Sources/Signing/OTAArchive", imports: "CZlib OTAFirmware"),
        library("Sources/Signing/OTAEncoding", imports: "CLzma OTAFirmware"),

        // Update: the update session, a value without a clock, a task, a socket or a lock; the engine that runs it over a transport.
        library("Sources/Update/OTAUpdate", imports: "OTAFirmware"),
        library("Sources/Update/OTAEngine", imports: "DescriptorIO OTAFirmware OTAUpdate"),

        // Protocols: a folder for each update protocol. OTAProtocol: what the other code can ask about a protocol.
        library("Sources/Protocols/OTAProtocol", imports: "OTASigning OTAUpdate"),
        library("Sources/Protocols/OTAProfile", imports: "OTAFirmware OTAProtocol OTASigning OTAUpdate"),
        library("Sources/Protocols/OTASMP", imports: "CCBOR OTAFirmware OTAProtocol OTASigning OTAUpdate"),

        // Bluetooth: D-Bus, and Bluetooth LE over BlueZ, for any program.
        library("Sources/Bluetooth/DBus", imports: "CDBus DescriptorIO Logging"),
        library("Sources/Bluetooth/BlueZ", imports: "DBus DescriptorIO Logging"),

        // Links: the transports over BlueZ, UDP and serial lines.
        library("Sources/Links/OTALinks", imports: "BlueZ DBus DescriptorIO OTAEngine OTAFirmware OTAUpdate Logging"),

        // Device: the device core for real firmware, and the virtual device that runs the same code; an Ed25519 verifier for firmware that
        // has none.
        libraryInC("Sources/Device/COTADevice"),
        libraryInC("Sources/Device/COTAEd25519"),
        library(
            "Sources/Device/OTASimulator",
            imports: "COTADevice DescriptorIO OTAEngine OTAFirmware OTASigning OTASMP OTAUpdate SystemPackage"),

        // Client: addresses, locks, the choice of the protocol, and the tasks for a device.
        library(
            "Sources/Client/OTAClient",
            imports: "BlueZ DescriptorIO OTAArchive OTAEncoding OTAEngine OTAFirmware OTALinks OTAProfile "
                + "OTAProtocol OTASigning OTASimulator OTASMP OTAUpdate Logging SystemPackage"),

        // Fleet: records, leases and the controller, as values; the stores; the gateway, which imports no transport. The commands for fleets
        // are in a program of their own, because they need libnats and SQLite.
        library("Sources/Fleet/OTAFleet", imports: "OTAFirmware OTASigning"),
        library("Sources/Fleet/OTAStore", imports: "OTAFirmware OTASigning"),
        library(
            "Sources/Fleet/OTALocalStore",
            imports: "CSQLite DescriptorIO OTAFirmware OTASigning OTAStore SystemPackage"),
        library("Sources/Fleet/NATS", imports: "CNATS COpenSSL DescriptorIO"),
        library("Sources/Fleet/OTANATSStore", imports: "DescriptorIO NATS OTAFirmware OTAStore"),
        library("Sources/Fleet/OTAGateway", imports: "DescriptorIO OTAFirmware OTAFleet OTASigning OTAStore"),
        library(
            "Sources/Fleet/OTAFleetCommands",
            imports: "DescriptorIO NATS OTAClient OTACommands OTAEngine OTAFirmware OTAFleet OTAGateway "
                + "OTALinks OTALocalStore OTANATSStore OTASigning OTAStore OTAUpdate ArgumentParser "
                + "SystemPackage"),
        program(
            "Sources/Fleet/otaflash-fleet",
            imports: "CLinux OTAFleetCommands", linker: selfContained + privateLibraries),

        // The command line.
        library(
            "Sources/CommandLine/OTACommands",
            imports: "BlueZ CLinux DBus DescriptorIO OTAArchive OTAClient OTAEncoding OTAEngine OTAFirmware "
                + "OTALinks OTAProtocol OTASigners OTASigning OTASimulator OTAUpdate ArgumentParser Logging "
                + "SystemPackage"),
        program("Sources/CommandLine/otaflash", imports: "OTACommands", linker: selfContained),

        // System: waiting for file descriptors, times and messages; C libraries. A token's module is loaded at run time: only the header of p11-kit is needed.
        library("Sources/System/DescriptorIO"),
        systemLibrary("CCBOR", "libcbor", debian: "libcbor-dev"),
        systemLibrary("CDBus", "dbus-1", debian: "libdbus-1-dev"),
        systemLibrary("CLinux"),
        systemLibrary("CLzma", "liblzma", debian: "liblzma-dev"),
        systemLibrary("CNATS", "libnats", debian: "libnats-dev"),
        systemLibrary("COpenSSL", "libcrypto", debian: "libssl-dev"),
        systemLibrary("CPKCS11", debian: "libp11-kit-dev"),
        systemLibrary("CSQLite", "sqlite3", debian: "libsqlite3-dev"),
        systemLibrary("CZlib", "zlib", debian: "zlib1g-dev"),

        // What tests share: commands and files; a BlueZ on a bus of its own; updates in worlds that are generated from seeds; stores with
        // faults; a nats-server; decoders for the fuzzers.
        library("Tests/Support/OTATestSupport", imports: "OTAEngine OTAUpdate Subprocess SystemPackage"),
        library(
            "Tests/Bluetooth/FakeBlueZ",
            imports: "BlueZ DBus OTAFirmware OTASigning OTASimulator OTAUpdate Subprocess SystemPackage"),
        library(
            "Tests/Update/Gauntlet",
            imports: "OTAEncoding OTAEngine OTAFirmware OTAProfile OTASigning OTASimulator OTASMP OTAUpdate"),
        library("Tests/Fleet/StoreContract", imports: "DescriptorIO OTAFirmware OTASigning OTAStore OTAUpdate"),
        library("Tests/Fleet/NATSTestSupport", imports: "DescriptorIO NATS OTATestSupport SystemPackage"),
        library(
            "Tests/Fuzzing/FuzzTargets",
            imports: "BlueZ DBus Gauntlet NATS OTAArchive OTAClient OTAFirmware OTAFleet OTALinks OTAProfile "
                + "OTASigners OTASigning OTASimulator OTASMP OTAUpdate SystemPackage"),
        libraryInC("Tests/Device/DeviceFuzz", imports: "COTADevice COTAEd25519"),
        // Programs for tests: any number of generated worlds; a program that writes to a store and that a test can kill; thousands of virtual
        // devices in one process; an example that a test runs on FakeBlueZ.
        program("Tests/Update/otaflash-gauntlet", imports: "Gauntlet OTATestSupport OTAUpdate ArgumentParser"),
        program(
            "Tests/Fleet/store-writer",
            imports: "CSQLite OTALocalStore OTAStore StoreContract ArgumentParser SystemPackage"),
        program(
            "Tests/Fleet/device-farm",
            imports: "CLinux OTACommands OTAFirmware OTASigning OTASimulator OTAUpdate ArgumentParser "
                + "SystemPackage"),
        program("Examples/Sources/bluez-explore", imports: "BlueZ"),
        // otaflash with one more protocol.
        program(
            "Tests/Protocols/otaflash-toy",
            imports: "OTAClient OTACommands OTAFirmware OTAProtocol OTASigning OTASimulator OTAUpdate"),

        tests("Tests/Signing/OTAFirmwareTests", imports: "OTAFirmware OTATestSupport OTAUpdate SystemPackage"),
        tests(
            "Tests/Signing/OTASigningTests",
            imports: "OTAFirmware OTASigning OTATestSupport OTAUpdate SystemPackage",
            exclude: ["Support/imgtool_peer.py", "Support/ml-dsa-vectors.txt"]),
        tests(
            "Tests/Signing/OTASignersTests",
            imports: "CPKCS11 OTAFirmware OTASigners OTASigning OTATestSupport OTAUpdate"),
        tests("Tests/Signing/OTAArchiveTests", imports: "OTAArchive OTAFirmware OTATestSupport OTAUpdate"),
        tests(
            "Tests/Signing/OTAEncodingTests",
            imports: "OTAEncoding OTAFirmware OTATestSupport OTAUpdate Subprocess SystemPackage"),
        tests("Tests/Update/OTAUpdateTests", imports: "OTAUpdate"),
        tests(
            "Tests/Update/OTAEngineTests",
            imports: "DescriptorIO Gauntlet OTAEngine OTAFirmware OTAProfile OTASigning OTASimulator OTASMP "
                + "OTATestSupport OTAUpdate"),
        tests("Tests/Protocols/OTAProfileTests", imports: "OTAFirmware OTAProfile OTASigning OTAUpdate"),
        tests(
            "Tests/Protocols/OTASMPTests",
            imports: "OTAFirmware OTASigning OTASimulator OTASMP OTATestSupport OTAUpdate SystemPackage",
            exclude: ["Golden/peer.py", "Golden/vectors.txt"]),
        tests("Tests/System/DescriptorIOTests", imports: "DescriptorIO"),
        tests(
            "Tests/Bluetooth/DBusTests",
            imports: "CDBus DBus Subprocess SystemPackage", exclude: ["Support/peer.py"]),
        tests(
            "Tests/Bluetooth/BlueZTests",
            imports: "BlueZ bluez-explore DBus DescriptorIO FakeBlueZ OTASimulator OTATestSupport Subprocess "
                + "SystemPackage"),
        tests(
            "Tests/Links/OTALinksTests",
            imports: "BlueZ DBus FakeBlueZ OTAEngine OTAFirmware OTALinks OTAProfile OTASigning OTASimulator "
                + "OTATestSupport OTAUpdate SystemPackage"),
        tests(
            "Tests/Device/COTADeviceTests",
            imports: "COpenSSL COTADevice OTAEncoding OTAFirmware OTATestSupport OTAUpdate SystemPackage"),
        tests(
            "Tests/Device/COTAEd25519Tests",
            imports: "COpenSSL COTAEd25519 OTAFirmware OTASigning OTATestSupport OTAUpdate SystemPackage",
            exclude: ["ed25519-vectors.txt"]),
        tests(
            "Tests/Device/OTASimulatorTests",
            imports: "COTADevice OTAEngine OTAFirmware OTASigning OTASimulator OTATestSupport OTAUpdate "
                + "SystemPackage"),
        tests(
            "Tests/Client/OTAClientTests",
            imports: "OTAArchive OTAClient OTAEngine OTAFirmware OTAProtocol OTASigning OTASimulator OTASMP "
                + "OTATestSupport OTAUpdate SystemPackage"),
        tests(
            "Tests/Fleet/OTAFleetTests",
            imports: "OTAFirmware OTAFleet OTASigning OTATestSupport OTAUpdate SystemPackage"),
        tests("Tests/Fleet/OTAStoreTests", imports: "OTASigning OTASimulator OTAStore StoreContract"),
        tests(
            "Tests/Fleet/OTALocalStoreTests",
            imports: "CSQLite DescriptorIO OTALocalStore OTASigning OTAStore OTATestSupport OTAUpdate "
                + "store-writer StoreContract Subprocess SystemPackage"),
        tests(
            "Tests/Fleet/NATSTests",
            imports: "DescriptorIO NATS NATSTestSupport OTATestSupport SystemPackage", exclude: ["Support/peer.py"]),
        tests(
            "Tests/Fleet/OTANATSStoreTests",
            imports: "NATS NATSTestSupport OTAFirmware OTANATSStore OTASigning OTAStore StoreContract"),
        tests(
            "Tests/Fleet/OTAGatewayTests",
            imports: "DescriptorIO OTAClient OTAFirmware OTAFleet OTAFleetCommands OTAGateway OTALocalStore "
                + "OTASigning OTASimulator OTAStore OTAUpdate StoreContract SystemPackage"),
        tests("Tests/Fuzzing/FuzzTargetsTests", imports: "DeviceFuzz FuzzTargets OTATestSupport SystemPackage"),
        tests(
            "Tests/CommandLine/OTACommandsTests",
            imports:
                "BlueZ DBus DescriptorIO FakeBlueZ NATS NATSTestSupport otaflash-toy OTAArchive OTAClient OTACommands "
                + "OTAEngine OTAFirmware OTAFleet OTAFleetCommands OTALinks OTALocalStore OTANATSStore "
                + "OTASigners OTASigning OTASimulator OTAStore OTATestSupport OTAUpdate Subprocess "
                + "SystemPackage",
            exclude: [
                "Support/dsse_peer.py", "Support/fake_agent.py", "Support/fake_token.c", "Support/hostile_smp.py",
                "Support/lying_smp_server.py", "Support/search_memory.py", "Support/smp_update.py",
            ]),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c99
)

// A release build optimizes the code under test. The tests themselves are not optimized, because the optimization takes longer than it
// saves. Three test targets are exceptions, because they compute the most.
for target in package.targets
where target.type == .test && !["OTAFleetTests", "OTAProfileTests", "OTASimulatorTests"].contains(target.name) {
    target.swiftSettings = (target.swiftSettings ?? []) + [.unsafeFlags(["-Onone"], .when(configuration: .release))]
}

// Under a sanitizer, only the modules in `computing` are optimized. They compute the most, and use hardly any threads. The other modules
// are not optimized, for three reasons. The build needs half the time. A sanitizer does not see an access that the optimizer removed. The
// thread sanitizer would report false races: the optimizer copies the standard library's container code into our modules, and the thread
// sanitizer does not see how the Swift runtime orders threads (by reference counts, and by a continuation that is resumed before its task
// waits).
let sanitizer = Context.environment["OTAFLASH_SANITIZED"]
if sanitizer != nil {
    let computing = ["OTAEncoding", "OTAFirmware", "OTASigning", "OTAUpdate", "OTAProfile", "OTASMP", "OTASimulator"]
    for target in package.targets where target.swiftSettings != nil && !computing.contains(target.name) {
        target.swiftSettings = (target.swiftSettings ?? []) + [.unsafeFlags(["-Onone"])]
    }
}
if let tests = Context.environment["OTAFLASH_SANITIZED_TESTS"] {
    package.targets.removeAll { $0.type == .test && ($0.name == "OTACommandsTests") != (tests == "commands") }
}
if sanitizer == "thread" {
    // These tests use no threads.
    let sequential = [
        "COTADeviceTests", "COTAEd25519Tests", "FuzzTargetsTests", "OTAArchiveTests", "OTAEncodingTests",
        "OTAFirmwareTests", "OTAFleetTests", "OTAProfileTests", "OTASMPTests",
        "OTASignersTests", "OTASigningTests", "OTAUpdateTests",
    ]
    package.targets.removeAll { sequential.contains($0.name) }
}
