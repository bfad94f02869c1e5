import FakeBlueZ
import Glibc
import OTATestSupport
import Testing

extension Sandbox {
    /// Compiles the example in Examples/posix-port, with the key that signs `fw.otaf`. Returns the path of the program.
    func posixPort(size: Int = 20_000, sanitizers: Bool = true) async throws -> String {
        try await releaseForWorld(size: size)
        let header = try await run("inspect", "world.pub.pem", "--c-array")
        try write("release_key.h", Array(header.out.utf8))
        let core = ["COTADevice", "COTAEd25519"].map { Self.repository("Sources/Device/\($0)") }
        let name = sanitizers ? "port-sanitized" : "port"
        let compiled = try await shell(
            """
            clang=$(dirname "$(readlink -f "$(PATH=$SWIFT_PATH; command -v swift)")")/clang
            exec "$clang" -DFACTORY -fuse-ld=lld -std=c99 -O1 -g -Wall -Wextra -Werror -pedantic -Wconversion \
                \(sanitizers ? "-fsanitize=address,undefined -fno-sanitize-recover=all" : "") \
                -I. -I\(core[0])/include -I\(core[1])/include \
                \(Self.repository("Examples/posix-port"))/*.c \(core[0])/*.c \(core[1])/*.c -lcrypto -o \(name)
            """, env: ["SWIFT_PATH": getenv("PATH").map { String(cString: $0) } ?? ""])
        #expect(compiled.exit == 0, "\(compiled.err)")
        return path(name)
    }
}

/// The example in Examples/posix-port: `otaflash` updates it over Bluetooth with a fake bluetoothd.
@Suite("The example of a port of the device core") struct PortTests {
    private func version(_ sandbox: Sandbox, _ world: World) async throws -> String? {
        let status = try await sandbox.run("status", "--device", world.device, "--format", "json", in: world)
        #expect(status.exit == 0, "\(status.err)")
        return try status.json().device?.running_version?.string
    }

    private func push(_ sandbox: Sandbox, _ world: World, _ option: String = "--plain") async throws -> JSONValue {
        let run = try await sandbox.run(
            "push", "fw.otaf", "--device", world.device, "--trust", "world.pub.pem", option, "--format", "json",
            in: world)
        #expect(run.exit == 0, "\(run.err)")
        return try run.json()
    }

    @Test("the port passes device-check with a bundle, and a push updates it over Bluetooth")
    func update() async throws {
        let sandbox = try Sandbox()
        let device = PortDevice(try await sandbox.posixPort(), flash: sandbox.path("flash"))
        try await World.run(device: device) { world in
            let check = try await sandbox.run(
                "device-check", "--device", world.device, "--bundle", "fw.otaf", "--trust", "world.pub.pem", "--format",
                "json", in: world)
            #expect(check.exit == 0, "\(check.out)\(check.err)")
            #expect(try check.json().skipped?.number == 0 && check.json().passed?.number ?? 0 > 40)
            #expect(try await version(sandbox, world) == "1.0.0")
            #expect(try await push(sandbox, world).outcome?.string == "confirmed")
            device.losePower(at: .zero)
            #expect(try await version(sandbox, world) == "1.1.0")
            #expect(device.exits == [])
        }
    }

    @Test("the port decodes a compressed image, and returns to the old image if it restarts before CONFIRM")
    func rollBack() async throws {
        let sandbox = try Sandbox()
        let device = PortDevice(try await sandbox.posixPort(), flash: sandbox.path("flash"))
        try await World.run(device: device) { world in
            let trial = try await push(sandbox, world, "--no-confirm")
            #expect(trial.outcome?.string == "on-trial" && trial.transfer?.encoding?.string == "lzma2")
            #expect(try await version(sandbox, world) == "1.1.0")
            device.losePower(at: .zero)
            #expect(try await version(sandbox, world) == "1.0.0")
            #expect(device.exits == [])
        }
    }

    @Test("after a power cut in the middle of a transfer, the push resumes from the offset of the port")
    func resume() async throws {
        let sandbox = try Sandbox()
        // The middle of the write of the third page.
        let device = PortDevice(try await sandbox.posixPort(), flash: sandbox.path("flash"), powerCuts: [29])
        try await World.run(device: device) { world in
            let result = try await push(sandbox, world)
            #expect(result.outcome?.string == "confirmed" && result.transfer?.disconnects?.number == 1)
            // Without resume, the push would send three pages again.
            #expect(result.transfer?.sent_bytes?.number ?? .infinity < 30_000)
            #expect(try await version(sandbox, world) == "1.1.0")
            #expect(device.exits == [75])
        }
    }
}
