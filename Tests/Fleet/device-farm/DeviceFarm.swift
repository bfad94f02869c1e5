import ArgumentParser
import Glibc
import OTAFirmware
import OTASigning
import OTASimulator
import OTAUpdate
import SystemPackage

/// Thousands of virtual devices in one process, each with an UDP port of its own. scripts/fleet-chaos updates them with real gateways.
@main struct DeviceFarm: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "device-farm", abstract: "Serve thousands of virtual SMP devices over UDP.",
        subcommands: [Image.self, Serve.self])
}

extension DeviceFarm {
    /// Writes an MCUboot image.
    struct Image: ParsableCommand {
        @Argument(help: "The file to write.") var file: String
        @Option(help: "The version of the image.") var version: String
        @Option(help: "The size of the image's body in bytes.") var size = 10_000
        @Option(help: "The private key that signs the image.") var key: String

        func run() throws {
            guard let version = SemanticVersion(version), let major = UInt8(exactly: version.major),
                let minor = UInt8(exactly: version.minor), let revision = UInt16(exactly: version.patch)
            else { throw ValidationError("'\(self.version)' is not the version of an MCUboot image (example: 1.1.0).") }
            let key = try PrivateKey(pem: KeyFile.privateKeyText(at: FilePath(key)), passphrase: nil)
            var random = SplitMix64(seed: UInt64(major) << 16 | UInt64(minor))
            let body = (0..<size).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            let image = try SampleImage((major, minor, revision, 0), body: body, key: key).bytes()
            let output = try FileDescriptor.open(
                FilePath(file), .writeOnly, options: [.create, .truncate, .closeOnExec], permissions: .ownerReadWrite)
            try output.closeAfter { _ = try output.writeAll(image) }
        }
    }

    /// Serves the devices until the end of standard input. Each line of standard input is a request for the counters: the answer is one
    /// line of JSON on standard output.
    struct Serve: ParsableCommand {
        @Option(help: "The number of devices.") var devices = 1000
        @Option(help: "The number of further devices, which answer uploads wrongly. Their addresses are the last ones.")
        var strangers = 0
        @Option(help: "The board of the devices, which is their product.") var board = "lamp"
        @Option(help: "The private key that signs the factory image, and whose public key the devices trust.") var key:
            String
        @Option(help: "The file to which the addresses of the devices are written, one on each line.") var addresses:
            String
        @Option(help: "The size of each of the two slots of a device in bytes.") var slotSize = 16_384
        @Option(help: "The time from the arrival of a packet to its answer in milliseconds.") var answerDelay = 20
        @Option(help: "The version of an image that crashes at its start, so that the device rolls back.") var crashing:
            String?

        func run() throws {
            let key = try PrivateKey(pem: KeyFile.privateKeyText(at: FilePath(key)), passphrase: nil)
            var configuration = VirtualSMPConfiguration(trustedKeys: [key.publicKey])
            configuration.layout = FlashLayout(pageSize: 512, slotSize: slotSize, writeUnit: 4)
            configuration.board = board
            configuration.answerDelay = .milliseconds(answerDelay)
            // Each datagram is one packet, and Zephyr's buffer for a datagram has 1500 bytes.
            configuration.reassembles = false
            configuration.bufferSize = 1500
            try configuration.validate()
            let farm = try Farm(
                try (0..<devices + strangers).map { number in
                    try FarmDevice(
                        VirtualSMPDevice(configuration, factoryKey: key), crashing: crashing,
                        isStranger: number >= devices)
                })
            let lines = farm.devices.map { "udp:127.0.0.1:\($0.port)\n" }.joined()
            let output = try FileDescriptor.open(
                FilePath(addresses), .writeOnly, options: [.create, .truncate, .closeOnExec],
                permissions: .ownerReadWrite)
            try output.closeAfter { _ = try output.writeAll(Array(lines.utf8)) }
            print("ready")
            fflush(nil)
            try farm.run()
        }
    }
}
