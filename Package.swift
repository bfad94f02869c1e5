// swift-tools-version: 6.2
import PackageDescription

// The targets follow the path of the data (docs/architecture.md):
//
//     firmware file → SignedBundle → VerifiedBundle → UpdateSession ⇄ events/actions → Link → device → trial → confirmed
//
// Code is in a target of its own if the compiler must forbid an import. The build uses
// `--explicit-target-dependency-import-check error`, so an import that the manifest does not allow does not compile.

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
let system: Target.Dependency = .product(name: "SystemPackage", package: "swift-system")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let subprocess: Target.Dependency = .product(name: "Subprocess", package: "swift-subprocess")
let arguments: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")

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
        .library(name: "COTADevice", targets: ["COTADevice"]),
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
        // Firmware files and bundles; signatures and trusted keys.
        .target(name: "OTAFirmware", swiftSettings: swift),
        .systemLibrary(name: "COpenSSL", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
        .target(name: "OTASigning", dependencies: ["OTAFirmware", "COpenSSL", system], swiftSettings: swift),

        // Private keys outside this process: in a PKCS#11 token, or behind a program of the user. The module of a token is loaded at run
        // time, so only the header of p11-kit is needed, and nothing is linked.
        .systemLibrary(name: "CPKCS11", providers: [.apt(["libp11-kit-dev"])]),
        .target(
            name: "OTASigners", dependencies: ["OTASigning", "OTAFirmware", "DescriptorIO", "CPKCS11", system],
            swiftSettings: swift),

        // Zip archives with several images.
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .target(name: "OTAArchive", dependencies: ["OTAFirmware", "CZlib"], swiftSettings: swift),

        // Images encoded for the transfer.
        .systemLibrary(name: "CLzma", pkgConfig: "liblzma", providers: [.apt(["liblzma-dev"])]),
        .target(name: "OTAEncoding", dependencies: ["OTAFirmware", "CLzma"], swiftSettings: swift),

        // The update sessions: values without a clock, a task, a socket or a lock.
        .target(name: "OTAUpdate", dependencies: ["OTAFirmware"], swiftSettings: swift),
        .target(name: "OTAProfile", dependencies: ["OTAUpdate", "OTAFirmware", "OTASigning"], swiftSettings: swift),

        // MCUmgr's protocol SMP, and the library that reads and writes its CBOR.
        .systemLibrary(name: "CCBOR", pkgConfig: "libcbor", providers: [.apt(["libcbor-dev"])]),
        .target(
            name: "OTASMP", dependencies: ["OTAUpdate", "OTAFirmware", "OTASigning", "CCBOR"], swiftSettings: swift),

        // The transport interface, and the engine that runs a session over a transport.
        .target(name: "OTATransport", dependencies: ["OTAUpdate"], swiftSettings: swift),
        .target(name: "OTAEngine", dependencies: ["OTATransport", "OTAUpdate", "OTAFirmware"], swiftSettings: swift),

        // Waits for file descriptors, on a thread of its own.
        .target(name: "DescriptorIO", swiftSettings: swift),

        // The transports over UDP and serial lines.
        .target(
            name: "OTAUDP", dependencies: ["DescriptorIO", "OTATransport", "OTAUpdate"], swiftSettings: swift),
        .target(
            name: "OTASerial", dependencies: ["DescriptorIO", "OTATransport", "OTAUpdate", "OTAFirmware"],
            swiftSettings: swift),

        // D-Bus, the system's message bus.
        .systemLibrary(name: "CDBus", pkgConfig: "dbus-1", providers: [.apt(["libdbus-1-dev"])]),
        .target(name: "DBus", dependencies: ["CDBus", "DescriptorIO", logging], swiftSettings: swift),

        // Bluetooth LE over BlueZ: a library for any program, and the transport that uses it.
        .target(name: "BlueZ", dependencies: ["DBus", "DescriptorIO", logging], swiftSettings: swift),
        .target(
            name: "OTABlueZ", dependencies: ["BlueZ", "DBus", "OTATransport", "OTAUpdate", logging],
            swiftSettings: swift),

        // An example from the package in Examples/. The example is also a target here, because a test runs it on a fake BlueZ.
        .executableTarget(
            name: "bluez-explore", dependencies: ["BlueZ"], path: "Examples/Sources/bluez-explore", swiftSettings: swift
        ),

        // The device core for real firmware, and the virtual device that runs the same code.
        .target(name: "COTADevice", cSettings: c),
        .target(
            name: "OTASimulator",
            dependencies: [
                "DescriptorIO", "OTATransport", "OTAUpdate", "OTASMP", "OTASigning", "OTAFirmware", "COTADevice",
                system,
            ],
            swiftSettings: swift),

        // The client library: addresses, locks, the choice of the protocol, and the tasks for a device.
        .target(
            name: "OTAClient",
            dependencies: [
                "BlueZ", "DescriptorIO", "OTAArchive", "OTABlueZ", "OTAEncoding", "OTAEngine", "OTAFirmware",
                "OTAProfile", "OTASerial", "OTASigning", "OTASimulator", "OTASMP", "OTATransport", "OTAUDP",
                "OTAUpdate", logging, system,
            ], swiftSettings: swift),

        // Fleets: records, signatures, leases and the controller, as values. FoundationEssentials formats the times of the records.
        .target(name: "OTAFleet", dependencies: ["OTAFirmware", "OTASigning"], swiftSettings: swift),
        // The store of a fleet: the interface, and a store in memory.
        .target(name: "OTAStore", dependencies: ["OTAFirmware", "OTASigning"], swiftSettings: swift),
        // The store in a file of this computer.
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .target(
            name: "OTALocalStore",
            dependencies: ["CSQLite", "DescriptorIO", "OTAFirmware", "OTASigning", "OTAStore", system],
            swiftSettings: swift),
        // NATS: connections over libnats, and the buckets and object stores of JetStream. FoundationEssentials is allowed here, for JSON
        // and base64. OpenSSL computes SHA-256 and the public key of an NKey; libnats needs it, too.
        .systemLibrary(name: "CNATS", pkgConfig: "libnats", providers: [.apt(["libnats-dev"])]),
        .target(name: "NATS", dependencies: ["CNATS", "COpenSSL", "DescriptorIO"], swiftSettings: swift),
        // The store on a NATS server.
        .target(
            name: "OTANATSStore", dependencies: ["DescriptorIO", "NATS", "OTAFirmware", "OTAStore"],
            swiftSettings: swift),
        // The gateway and the controller of a fleet. They import no transport: the caller passes the devices.
        .target(
            name: "OTAGateway", dependencies: ["OTAFirmware", "OTAFleet", "OTASigning", "OTAStore"],
            swiftSettings: swift),
        // The devices of a gateway, over all transports of OTAClient.
        .target(
            name: "OTAFleetDevices",
            dependencies: [
                "DescriptorIO", "OTAClient", "OTAFirmware", "OTAFleet", "OTAGateway", "OTASigning", "OTATransport",
                "OTAUpdate",
            ],
            swiftSettings: swift),

        // The command line.
        .systemLibrary(name: "CLinux"),
        .target(
            name: "OTACommands",
            dependencies: [
                "BlueZ", "CLinux", "DBus", "DescriptorIO", "OTAArchive", "OTABlueZ", "OTAClient", "OTAEncoding",
                "OTAFirmware",
                "OTASerial", "OTASigners", "OTASigning", "OTASimulator", "OTATransport", "OTAUDP", "OTAUpdate",
                arguments, logging, system,
            ], swiftSettings: swift),
        .executableTarget(
            name: "otaflash", dependencies: ["OTACommands"], swiftSettings: swift, linkerSettings: selfContained),
        // The commands for fleets. They are in a program of their own, because they need libnats and SQLite.
        .target(
            name: "OTAFleetCommands",
            dependencies: [
                "DescriptorIO", "NATS", "OTABlueZ", "OTAClient", "OTACommands", "OTAFirmware", "OTAFleet",
                "OTAFleetDevices", "OTAGateway", "OTALocalStore", "OTANATSStore", "OTASigning", "OTAStore", arguments,
                system,
            ], swiftSettings: swift),
        .executableTarget(
            name: "otaflash-fleet", dependencies: ["CLinux", "OTAFleetCommands"], swiftSettings: swift,
            linkerSettings: selfContained + privateLibraries),

        // The tests and their shared code.
        .target(
            name: "OTATestSupport", dependencies: ["OTATransport", "OTAUpdate", subprocess, system],
            swiftSettings: swift),
        .testTarget(
            name: "OTAFirmwareTests",
            dependencies: ["OTAFirmware", "OTATestSupport", "OTAUpdate", system], swiftSettings: swift),
        .testTarget(
            name: "OTASigningTests",
            dependencies: ["OTASigning", "OTAFirmware", "OTATestSupport", "OTAUpdate", system],
            exclude: ["Support/imgtool_peer.py"], swiftSettings: swift),
        .testTarget(
            name: "OTASignersTests",
            dependencies: ["OTASigners", "OTASigning", "OTAFirmware", "OTATestSupport", "OTAUpdate", "CPKCS11"],
            swiftSettings: swift),
        .testTarget(
            name: "OTAArchiveTests", dependencies: ["OTAArchive", "OTAFirmware", "OTATestSupport", "OTAUpdate"],
            swiftSettings: swift),
        .testTarget(
            name: "OTAEncodingTests",
            dependencies: ["OTAEncoding", "OTAFirmware", "OTATestSupport", "OTAUpdate", subprocess, system],
            swiftSettings: swift),
        .testTarget(
            name: "OTAClientTests",
            dependencies: [
                "OTAClient", "OTAEngine", "OTAFirmware", "OTASMP", "OTASigning", "OTASimulator", "OTATransport",
                "OTAUpdate", system,
            ],
            swiftSettings: swift),
        .testTarget(
            name: "OTAFleetTests", dependencies: ["OTAFleet", "OTAFirmware", "OTASigning", "OTAUpdate", system],
            swiftSettings: swift),
        // The behaviour of all stores, a store with faults, and a program that writes to a store and that a test can kill.
        .target(
            name: "StoreContract",
            dependencies: ["DescriptorIO", "OTAFirmware", "OTASigning", "OTAStore", "OTAUpdate"],
            path: "Tests/StoreContract", swiftSettings: swift),
        .executableTarget(
            name: "store-writer",
            dependencies: ["CSQLite", "OTALocalStore", "OTAStore", "StoreContract", arguments, system],
            path: "Tests/store-writer", swiftSettings: swift),
        .testTarget(
            name: "OTAStoreTests", dependencies: ["OTAStore", "OTASimulator", "OTASigning", "StoreContract"],
            swiftSettings: swift),
        .testTarget(
            name: "OTALocalStoreTests",
            dependencies: [
                "OTALocalStore", "CSQLite", "DescriptorIO", "OTASigning", "OTAStore", "OTATestSupport", "OTAUpdate",
                "StoreContract",
                "store-writer",
                subprocess, system,
            ], swiftSettings: swift),
        .testTarget(
            name: "OTAGatewayTests",
            dependencies: [
                "DescriptorIO", "OTAClient", "OTAFirmware", "OTAFleet", "OTAFleetDevices", "OTAGateway",
                "OTALocalStore", "OTASigning", "OTASimulator", "OTAStore", "OTAUpdate", "StoreContract", system,
            ],
            swiftSettings: swift),
        // Thousands of virtual devices in one process (scripts/fleet-chaos).
        .executableTarget(
            name: "device-farm",
            dependencies: [
                "CLinux", "OTACommands", "OTAFirmware", "OTASigning", "OTASimulator", "OTAUpdate", arguments, system,
            ],
            path: "Tests/device-farm", swiftSettings: swift),
        .testTarget(name: "OTAUpdateTests", dependencies: ["OTAUpdate"], swiftSettings: swift),
        .testTarget(
            name: "COTADeviceTests",
            dependencies: [
                "COTADevice", "COpenSSL", "OTAEncoding", "OTAFirmware", "OTATestSupport", "OTAUpdate", system,
            ],
            swiftSettings: swift),
        .target(
            name: "FakeBlueZ",
            dependencies: [
                "BlueZ", "DBus", "OTAFirmware", "OTASigning", "OTASimulator", "OTAUpdate", subprocess, system,
            ],
            path: "Tests/FakeBlueZ", swiftSettings: swift),
        .testTarget(
            name: "BlueZTests",
            dependencies: [
                "BlueZ", "DBus", "DescriptorIO", "FakeBlueZ", "OTASimulator", "OTATestSupport", "bluez-explore",
                subprocess, system,
            ],
            swiftSettings: swift),
        .testTarget(
            name: "OTABlueZTests",
            dependencies: [
                "OTABlueZ", "BlueZ", "DBus", "FakeBlueZ", "OTAEngine", "OTAProfile", "OTASimulator", "OTATransport",
                "OTAUpdate", "OTASigning", "OTAFirmware",
            ], swiftSettings: swift),
        .testTarget(
            name: "DBusTests", dependencies: ["DBus", "CDBus", subprocess, system], exclude: ["Support/peer.py"],
            swiftSettings: swift),
        // A nats-server for a test.
        .target(
            name: "NATSTestSupport", dependencies: ["NATS", "DescriptorIO", "OTATestSupport", system],
            path: "Tests/NATSTestSupport", swiftSettings: swift),
        .testTarget(
            name: "NATSTests", dependencies: ["NATS", "DescriptorIO", "NATSTestSupport", "OTATestSupport", system],
            exclude: ["Support/peer.py"], swiftSettings: swift),
        .testTarget(
            name: "OTANATSStoreTests",
            dependencies: [
                "OTANATSStore", "NATS", "NATSTestSupport", "OTAFirmware", "OTASigning", "OTAStore", "StoreContract",
            ], swiftSettings: swift),
        .testTarget(name: "DescriptorIOTests", dependencies: ["DescriptorIO"], swiftSettings: swift),
        .testTarget(
            name: "OTATransportTests", dependencies: ["OTATestSupport", "OTATransport", "OTAUpdate"],
            swiftSettings: swift),
        .testTarget(
            name: "OTAUDPTests", dependencies: ["OTAUDP", "OTATestSupport", "OTATransport", "OTAUpdate"],
            swiftSettings: swift),
        .testTarget(
            name: "OTASerialTests",
            dependencies: ["OTASerial", "OTATransport", "OTAUpdate", "OTATestSupport", system],
            swiftSettings: swift),
        .testTarget(
            name: "OTASimulatorTests",
            dependencies: [
                "OTASimulator", "OTATestSupport", "OTATransport", "OTAUpdate", "OTASigning", "OTAFirmware",
                "COTADevice", system,
            ], swiftSettings: swift),
        .target(
            name: "FuzzTargets",
            dependencies: [
                "BlueZ", "DBus", "NATS", "OTAArchive", "OTABlueZ", "OTAClient", "OTAFirmware", "OTAFleet",
                "OTAProfile", "OTASerial", "OTASigners", "OTASigning", "OTASimulator", "OTASMP", "OTAUDP", "OTAUpdate",
                "Gauntlet", system,
            ], path: "Tests/FuzzTargets", swiftSettings: swift),
        .target(name: "DeviceFuzz", dependencies: ["COTADevice"], path: "Tests/DeviceFuzz", cSettings: c),
        .testTarget(name: "FuzzTargetsTests", dependencies: ["FuzzTargets", "DeviceFuzz"], swiftSettings: swift),
        .testTarget(
            name: "OTAProfileTests", dependencies: ["OTAProfile", "OTAUpdate", "OTASigning", "OTAFirmware"],
            swiftSettings: swift),
        .testTarget(
            name: "OTASMPTests",
            dependencies: [
                "OTASMP", "OTASimulator", "OTATestSupport", "OTAUpdate", "OTASigning", "OTAFirmware", system,
            ],
            exclude: ["Golden/peer.py", "Golden/vectors.txt"], swiftSettings: swift),
        // Complete updates in worlds that are generated from seeds, and the program that plays any number of worlds.
        .target(
            name: "Gauntlet",
            dependencies: [
                "OTAEncoding", "OTAEngine", "OTAProfile", "OTASMP", "OTASimulator", "OTATransport", "OTAUpdate",
                "OTASigning", "OTAFirmware",
            ], path: "Tests/Gauntlet", swiftSettings: swift),
        .executableTarget(
            name: "otaflash-gauntlet", dependencies: ["Gauntlet", "OTATestSupport", "OTAUpdate", arguments],
            path: "Tests/otaflash-gauntlet",
            swiftSettings: swift),
        .testTarget(
            name: "OTAEngineTests",
            dependencies: [
                "Gauntlet", "OTAEngine", "OTAProfile", "OTASMP", "OTASimulator", "OTATransport", "OTAUpdate",
                "OTASigning", "OTAFirmware",
            ], swiftSettings: swift),
        .testTarget(
            name: "OTACommandsTests",
            dependencies: [
                "OTACommands", "BlueZ", "DBus", "DescriptorIO", "FakeBlueZ", "NATS", "NATSTestSupport", "OTAArchive",
                "OTAClient", "OTAFirmware", "OTAFleet", "OTAFleetCommands", "OTALocalStore", "OTANATSStore",
                "OTASerial", "OTASigners",
                "OTASigning", "OTASimulator", "OTAStore",
                "OTATestSupport", "OTATransport",
                "OTAUDP", "OTAUpdate",
                subprocess, system,
            ],
            exclude: [
                "Support/dsse_peer.py", "Support/fake_agent.py", "Support/fake_token.c", "Support/hostile_smp.py",
                "Support/lying_smp_server.py", "Support/search_memory.py", "Support/smp_update.py",
            ],
            swiftSettings: swift),
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
if Context.environment["OTAFLASH_SANITIZED_LIBRARIES"] != nil {
    package.targets.removeAll { $0.name == "OTACommandsTests" }
}
if sanitizer == "thread" {
    // These tests use no threads.
    let sequential = [
        "COTADeviceTests", "FuzzTargetsTests", "OTAArchiveTests", "OTAEncodingTests", "OTAFirmwareTests",
        "OTAFleetTests", "OTAProfileTests", "OTASMPTests",
        "OTASignersTests", "OTASigningTests", "OTAUpdateTests",
    ]
    package.targets.removeAll { sequential.contains($0.name) }
}
