import DBus
import FakeBlueZ
import FoundationEssentials
import Testing

extension Sandbox {
    /// The private key of RFC 8032, 7.1, test 1, whose public half the device of a `World` trusts, as PKCS #8 (RFC 8410, 7).
    private static let worldKey = """
        -----BEGIN PRIVATE KEY-----
        MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
        -----END PRIVATE KEY-----

        """

    /// Makes `fw.otaf`, which the device of a `World` accepts, and `world.pub.pem`.
    func releaseForWorld(size: Int = 20_000) async throws {
        try write("world.pem", Array(Self.worldKey.utf8))
        let made = try await shell(
            """
            chmod 600 world.pem && openssl pkey -in world.pem -pubout -out world.pub.pem &&
            head -c \(size) /dev/zero >fw.bin && exec "$0" "$@"
            """,
            "sign", "fw.bin", "--key", "world.pem", "--product", "demo", "--version", "1.1.0", "--counter", "2", "-o",
            "fw.otaf")
        #expect(made.exit == 0, "\(made.err)")
    }

    /// Runs `otaflash` in a world of its own.
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

    /// How many guards of links are alive on this bus.
    var guards: Int {
        get throws {
            guard case .address(let address) = bus else { return 0 }
            return try FileManager.default.contentsOfDirectory(atPath: "/proc").filter { process in
                // One that ends meanwhile has neither.
                let commandLine = FileManager.default.contents(atPath: "/proc/\(process)/cmdline") ?? Data()
                let environment = FileManager.default.contents(atPath: "/proc/\(process)/environ") ?? Data()
                return String(decoding: commandLine, as: UTF8.self).contains("--guard-links")
                    && String(decoding: environment, as: UTF8.self).contains(address)
            }.count
        }
    }
}
