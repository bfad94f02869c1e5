import DBus
import FakeBlueZ
import FoundationEssentials
import SystemPackage
import Testing

extension Sandbox {
    /// The private key of RFC 8032, 7.1, test 1, as PKCS #8 (RFC 8410, 7). The device of a `World` trusts its public key.
    private static let worldKey = """
        -----BEGIN PRIVATE KEY-----
        MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
        -----END PRIVATE KEY-----

        """

    /// Makes `world.pub.pem` and the bundle `fw.otaf`. The device of a `World` accepts the bundle.
    func releaseForWorld(size: Int = 20_000) async throws {
        try write("world.pem", Array(Self.worldKey.utf8))
        let made = try await shell(
            """
            chmod 600 world.pem && openssl pkey -in world.pem -pubout -out world.pub.pem &&
            { printf "\\200"; head -c \(size - 1) /dev/zero; } >fw.bin && exec "$0" "$@"
            """,
            "sign", "fw.bin", "--key", "world.pem", "--product", "demo", "--version", "1.1.0", "--counter", "2", "-o",
            "fw.otaf")
        #expect(made.exit == 0, "\(made.err)")
    }

    /// Runs `otaflash` with the D-Bus address of the world.
    func run(_ arguments: String..., in world: World, input: [UInt8] = []) async throws -> Run {
        try await run(arguments, env: Self.environment(of: world), input: input)
    }

    static func environment(of world: World) -> [String: String] {
        guard case .address(let address) = world.bus else { return [:] }
        return ["DBUS_SYSTEM_BUS_ADDRESS": address]
    }
}

extension World {
    var device: String { "ble:\(address)" }

    /// The number of running guard processes on this bus.
    var guards: Int {
        get throws {
            guard case .address(let address) = bus else { return 0 }
            return try FileManager.default.contentsOfDirectory(atPath: "/proc").filter { process in
                Self.text("/proc/\(process)/cmdline").contains("--guard-links")
                    && Self.text("/proc/\(process)/environ").contains(address)
            }.count
        }
    }

    /// The content of a file in /proc; empty if the process has ended. Foundation leaks its buffer when a file is empty.
    private static func text(_ path: String) -> String {
        guard let file = try? FileDescriptor.open(FilePath(path), .readOnly) else { return "" }
        defer { try? file.close() }
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = (try? bytes.withUnsafeMutableBytes { try file.read(into: $0) }) ?? 0
        return String(decoding: bytes.prefix(count), as: UTF8.self)
    }
}
