import FakeBlueZ
import Testing

@Suite("Command gatt") struct GattTests {
    private static let version = "c7e10006-63a0-486d-9bcb-a18d79d9acd9"
    private static let control = "c7e10003-63a0-486d-9bcb-a18d79d9acd9"

    @Test("gatt services lists the OTA service with the operations of its characteristics")
    func servicesAreListed() async throws {
        try await World.run { world in
            let run = try await Sandbox().run("gatt", "services", world.device, "--format", "json", in: world)
            #expect(run.exit == 0, "\(run.err)")
            let services = try #require(try run.json().services?.array)
            let ota = try #require(services.first { $0.uuid?.string == "c7e10001-63a0-486d-9bcb-a18d79d9acd9" })
            let found = ota.characteristics?.array?.first { $0.uuid?.string == Self.control }
            #expect(found?.operations?.array?.map(\.string) == ["write", "notify"])
        }
    }

    @Test("gatt read prints the value in hexadecimal and as text")
    func aValueIsRead() async throws {
        try await World.run { world in
            let run = try await Sandbox().run("gatt", "read", world.device, Self.version, in: world)
            #expect(run.exit == 0 && run.out == "312e302e30  \"1.0.0\"\n", "\(run.err)")
        }
    }

    /// The device answers a CONFIRM without an image on trial with "bad state" (docs/ota-profile.md).
    @Test("gatt write reports a refused write, and gatt notify returns no value when none arrives")
    func aValueIsWrittenAndNotified() async throws {
        try await World.run { world in
            let sandbox = try Sandbox()
            let refused = try await sandbox.run(
                "gatt", "write", world.device, Self.control, "0521", "--format", "json", in: world)
            // The device refuses writes to Control before a subscription.
            #expect(refused.exit == 76)
            #expect(try refused.json().error?.code?.string == "attribute-refused")
            let listening = try await sandbox.run(
                "gatt", "notify", world.device, Self.control, "--timeout", "0.3", "--format", "json", in: world)
            #expect(listening.exit == 0, "\(listening.err)")
            #expect(try listening.json().values?.array?.isEmpty == true)
        }
    }

    @Test("gatt read of a missing characteristic exits with 76, and the hint lists the services")
    func whatIsNotThere() async throws {
        try await World.run { world in
            let run = try await Sandbox().run("gatt", "read", world.device, "2a20", "--format", "json", in: world)
            #expect(run.exit == 76)
            #expect(
                try run.json().error?.hint?.string?
                    .hasPrefix("list the services of the device: otaflash gatt services \(world.device)") == true)
        }
    }
}
