import FakeBlueZ
import Testing

@Suite struct GattTests {
    private static let version = "c7e10006-63a0-486d-9bcb-a18d79d9acd9"
    private static let control = "c7e10003-63a0-486d-9bcb-a18d79d9acd9"

    @Test func servicesAreListed() async throws {
        try await World.run { world in
            let run = try await Sandbox().run("gatt", "services", world.device, "--format", "json", in: world)
            #expect(run.exit == 0, "\(run.err)")
            let services = try #require(try run.json().services?.array)
            let ota = try #require(services.first { $0.uuid?.string == "c7e10001-63a0-486d-9bcb-a18d79d9acd9" })
            let found = ota.characteristics?.array?.first { $0.uuid?.string == Self.control }
            #expect(found?.operations?.array?.map(\.string) == ["write", "notify"])
        }
    }

    @Test func aValueIsRead() async throws {
        try await World.run { world in
            let run = try await Sandbox().run("gatt", "read", world.device, Self.version, in: world)
            #expect(run.exit == 0 && run.out == "312e302e30  \"1.0.0\"\n", "\(run.err)")
        }
    }

    /// A CONFIRM with nothing to confirm is answered "bad state" (docs/ota-profile.md).
    @Test func aValueIsWrittenAndNotified() async throws {
        try await World.run { world in
            let sandbox = try Sandbox()
            let refused = try await sandbox.run(
                "gatt", "write", world.device, Self.control, "0521", "--format", "json", in: world)
            // Control wants to be subscribed to first.
            #expect(refused.exit == 76)
            #expect(try refused.json().error?.code?.string == "attribute-refused")
            let listening = try await sandbox.run(
                "gatt", "notify", world.device, Self.control, "--timeout", "0.3", "--format", "json", in: world)
            #expect(listening.exit == 0, "\(listening.err)")
            #expect(try listening.json().values?.array?.isEmpty == true)
        }
    }

    @Test func whatIsNotThere() async throws {
        try await World.run { world in
            let run = try await Sandbox().run("gatt", "read", world.device, "2a20", "--format", "json", in: world)
            #expect(run.exit == 76)
            #expect(
                try run.json().error?.hint?.string
                    == "list the services of the device: otaflash gatt services \(world.device)")
        }
    }
}
