import BlueZ
import FakeBlueZ
import Glibc
import OTACommands
import Subprocess
import Testing

/// Commands over Bluetooth with a fake bluetoothd. The radio lab uses the real one.
@Suite("Commands over BLE with a fake bluetoothd") struct BluetoothTests {
    @Test("push over BLE ends confirmed and disconnects")
    func anUpdateEndsConfirmed() async throws {
        try await World.run { world in
            let sandbox = try Sandbox()
            try await sandbox.releaseForWorld()
            let push = try await sandbox.run(
                "push", "fw.otaf", "--device", world.device, "--trust", "world.pub.pem", "--format", "json", in: world)
            #expect(push.exit == 0, "\(push.err)")
            let answer = try push.json()
            #expect(answer.outcome?.string == "confirmed")
            #expect(answer.device?.address?.string == "ble:00:AA:01:01:00:42")
            #expect(answer.device?.name?.string == "Virtual")
            #expect(answer.device?.running_version?.string == "1.1.0")
            #expect(answer.transfer?.image_bytes?.number == 20_000)
            #expect(answer.transfer?.link_bound_bytes_per_second == nil)
            try await world.until("no link is left") { try await !world.isConnected }
        }
    }

    @Test(
        "a device is found by its BLE address, by its name, or as the only one in range",
        arguments: ["ble:00:aa:01:01:00:42", "ble:name=Virtual", "ble:"])
    func aDeviceIsFound(address: String) async throws {
        try await World.run { world in
            let status = try await Sandbox().run("status", "--device", address, "--format", "json", in: world)
            #expect(status.exit == 0, "\(status.err)")
            #expect(try status.json().device?.address?.string == world.device)
            #expect(try status.json().device?.running_version?.string == "1.0.0")
        }
    }

    @Test("ble: with several devices in range is refused with a list of them")
    func severalAreListed() async throws {
        let other = FakeBlueZ.Neighbour(
            "00:AA:01:07:00:42", "Hall", services: ["c7e10001-63a0-486d-9bcb-a18d79d9acd9"])
        try await World.run(neighbours: [other]) { world in
            let status = try await Sandbox().run("status", "--device", "ble:", "--format", "json", in: world)
            #expect(status.exit == 69)
            let error = try #require(try status.json().error)
            #expect(error.code?.string == "no-such-device")
            for part in ["00:AA:01:01:00:42 Virtual", "00:AA:01:07:00:42 Hall"] {
                #expect(error.message?.string?.contains(part) == true, "\(error)")
            }
            #expect(error.hint?.string?.contains("otaflash scan") == true)
        }
    }

    @Test("a second otaflash on the same BLE device is refused with the process ID of the first")
    func oneOtaflashAtATime() async throws {
        try await World.run { world in
            let run = try await Sandbox().shell(
                """
                mkdir -p "$OTAFLASH_STATE_DIR" && exec 9>>"$OTAFLASH_STATE_DIR/ble-00AA01010042.lock" &&
                flock 9 && echo 4711 >&9 && "$0" "$@"
                """,
                "status", "--device", "ble:name=Virtual", "--format", "json", env: Sandbox.environment(of: world))
            #expect(run.exit == 75)
            #expect(try run.json().error?.code?.string == "device-in-use")
            #expect(try run.json().error?.message?.string?.contains("process 4711") == true)
            #expect(await world.fake?.connects == 0)
        }
    }

    @Test("gateway run --all finds a device, reads it once, and updates it as the rollout requests")
    func gatewayFindsDevices() async throws {
        try await World.run { world in
            let sandbox = try Sandbox()
            try await sandbox.releaseForWorld()
            #expect(try await sandbox.run("keygen", "ops").exit == 0)
            let published = try await sandbox.run(
                "release", "publish", "fw.otaf", "--key", "ops.pem", "--trust", "world.pub.pem", "--format", "json")
            let release = try #require(try published.json().release?.id?.string, "\(published.err)")
            try sandbox.write("mine", Array("ble:00:AA:01:01:00:42\n".utf8))
            let created = try await sandbox.run(
                "rollout", "create", "spring", "--release", release, "--select", "product=demo", "--enrolled", "mine",
                "--key",
                "ops.pem")
            #expect(created.exit == 0, "\(created.err)")
            let run = try await sandbox.shell(
                """
                "$0" gateway run --name desk --all --trust world.pub.pem --operators ops.pub.pem --format json >gateway.json & gateway=$!
                "$0" rollout status spring --operators ops.pub.pem --wait --timeout 5m; status=$?
                kill $gateway; wait $gateway; exit $status
                """, env: Sandbox.environment(of: world))
            #expect(run.exit == 0, "\(run.err)")
            let devices = try await sandbox.run("fleet", "devices", "--format", "json")
            #expect(try devices.json().devices?.array?.map { $0.id?.string } == ["ble-00AA01010042"])
            #expect(try devices.json().devices?.array?.first?.version?.string == "1.1.0")
            try await world.until("no link is left") { try await !world.isConnected }
        }
    }

    // MARK: - SIGKILL

    /// bluetoothd keeps the link of a killed program. The guard process of the command closes the link.
    @Test("the BLE link ends after kill -9 of the command")
    func aKilledCommandLeavesNoLink() async throws {
        try await World.run { world in
            let sandbox = try Sandbox()
            let words = ["gatt", "notify", world.device, "c7e10005-63a0-486d-9bcb-a18d79d9acd9", "--timeout", "60"]
            let result = try await Subprocess.run(
                .path(Sandbox.binary), arguments: Arguments(words),
                environment: sandbox.environment(Sandbox.environment(of: world)), input: .none, output: .discarded,
                error: .discarded
            ) { execution in
                try await world.until("it is connected") { try await world.isConnected }
                #expect(try world.guards == 1)
                kill(execution.processIdentifier.value, SIGKILL)
            }
            #expect(result.terminationStatus == .signaled(SIGKILL))
            try await world.until("no link is left") { try await !world.isConnected }
            try await world.until("no guard is left") { try world.guards == 0 }
        }
    }

    /// The command must not end a link that existed before it.
    @Test("kill -9 of a command does not end a BLE link that another client opened")
    func aKilledCommandLeavesASharedLink() async throws {
        try await World.run { world in
            let sandbox = try Sandbox()
            let client = try await BlueZClient.open(world.bus)
            try await client.withConnection(ConnectionRequest(.address(world.address))) { connection in
                let words = ["gatt", "notify", world.device, "c7e10005-63a0-486d-9bcb-a18d79d9acd9"]
                _ = try await Subprocess.run(
                    .path(Sandbox.binary), arguments: Arguments(words),
                    environment: sandbox.environment(Sandbox.environment(of: world)), input: .none,
                    output: .discarded, error: .discarded
                ) { execution in
                    try await world.until("it shares the link") { await world.fake?.connects == 2 }
                    #expect(try world.guards == 0)
                    kill(execution.processIdentifier.value, SIGKILL)
                }
                #expect(await connection.ended == nil)
            }
        }
    }

    @Test("the guard process ends with its command")
    func noGuardOutlivesItsCommand() async throws {
        try await World.run { world in
            let run = try await Sandbox().run("status", "--device", world.device, in: world)
            #expect(run.exit == 0, "\(run.err)")
            #expect(try world.guards == 0)
        }
    }

    // MARK: - Pairing

    @Test(
        "a device with a passkey accepts the right one, and refuses a wrong or missing one with 77",
        arguments: [("123456", 0), ("654321", 77), (nil, 77)] as [(String?, Int32)])
    func aDeviceMayWantAPasskey(passkey: String?, exit: Int32) async throws {
        try await World.run(passkey: 123_456) { world in
            let words = ["identify", "--device", world.device, "--format", "json"]
            let run = try await Sandbox().run(
                words + (passkey.map { ["--passkey", $0] } ?? []), env: Sandbox.environment(of: world))
            #expect(run.exit == exit, "\(run.err)")
            guard exit != 0 else { return }
            #expect(try run.json().error?.code?.string == "not-permitted")
            #expect(try run.json().error?.hint?.string?.contains("--passkey") == true)
        }
    }

    /// The device accepts the subscription without a bond. It drops the writes without response.
    @Test(
        "an SMP device that drops writes without a bond is paired, or refused with 77",
        arguments: [("123456", 0), (nil, 77)] as [(String?, Int32)])
    func aDeviceDropsWritesWithoutABond(passkey: String?, exit: Int32) async throws {
        try await World.run(passkey: 123_456, board: "board") { world in
            let words = ["status", "--device", world.device, "--format", "json"]
            let run = try await Sandbox().run(
                words + (passkey.map { ["--passkey", $0] } ?? []), env: Sandbox.environment(of: world))
            #expect(run.exit == exit, "\(run.err)")
            guard exit != 0 else { return }
            #expect(try run.json().error?.code?.string == "not-permitted")
            #expect(try run.json().error?.hint?.string?.contains("--passkey") == true)
        }
    }

    @Test("a terminal user is asked for the passkey of the device")
    func thePasskeyIsAskedForOnATerminal() async throws {
        try await World.run(passkey: 123_456) { world in
            let (status, screen) = try await Sandbox().onTerminal(
                "identify", "--device", world.device, env: Sandbox.environment(of: world),
                typing: [(prompt: "Enter the six digits that it shows: ", answer: "123456\n")])
            #expect(status == .exited(0), "\(screen)")
            #expect(screen.contains("blinks for 10 s"))
        }
    }

    // MARK: - Missing parts

    @Test("a command without a D-Bus daemon exits with 69 and names otaflash doctor")
    func noBus() async throws {
        let run = try await Sandbox().run(
            "status", "--device", "ble:AA:BB:CC:DD:EE:FF", "--format", "json",
            env: ["DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent"])
        #expect(run.exit == 69)
        #expect(try run.json().error?.code?.string == "link-unavailable")
        #expect(try run.json().error?.hint?.string?.contains("otaflash doctor") == true)
    }

    @Test(
        "a command without bluetoothd exits with 69 and names bluetoothd",
        arguments: [["status", "--device", "ble:00:AA:01:01:00:42"], ["scan"], ["gatt", "services", "ble:"]])
    func noBluetoothd(words: [String]) async throws {
        try await World.run { world in
            try await world.pull(.killService)
            let run = try await Sandbox().run(words + ["--format", "json"], env: Sandbox.environment(of: world))
            #expect(run.exit == 69)
            #expect(try run.json().error?.code?.string == "link-unavailable")
            #expect(try run.json().error?.message?.string?.contains("bluetoothd") == true)
        }
    }

    @Test(
        "a command with a switched-off or missing adapter exits with 69 and names the adapter",
        arguments: [["status", "--device", "ble:00:AA:01:01:00:42"], ["scan"], ["gatt", "services", "ble:"]])
    func noPower(words: [String]) async throws {
        try await World.run { world in
            try await world.setPower(false)
            let run = try await Sandbox().run(words + ["--format", "json"], env: Sandbox.environment(of: world))
            #expect(run.exit == 69, "\(run.err)")
            #expect(try run.json().error?.message?.string?.contains("hci0 is switched off") == true)
            let absent = try await Sandbox().run(
                words + ["--adapter", "hci7", "--format", "json"], env: Sandbox.environment(of: world))
            #expect(absent.exit == 69, "\(absent.err)")
            #expect(try absent.json().error?.message?.string?.contains("no adapter hci7") == true)
        }
    }

    @Test(
        "an invalid BLE address, option or value exits with 64 and a hint",
        arguments: [
            ["status", "--device", "ble:AA:BB"], ["status", "--device", "ble:name="],
            ["status", "--device", "ble:", "--adapter", "usb0"], ["status", "--device", "ble:", "--passkey", "12345"],
            ["status", "--device", "sim:kitchen", "--adapter", "hci0"],
            ["status", "--device", "sim:kitchen", "--passkey", "123456"], ["scan", "--timeout", "0"],
            ["scan", "--protocol", "dfu"], ["scan", "--protocol", "ota", "--all"],
            ["gatt", "read", "sim:kitchen", "2a19"], ["gatt", "read", "ble:", "2a1"],
            ["gatt", "write", "ble:", "2a19", "0"], ["gatt"],
        ])
    func whatCannotBeMeant(words: [String]) async throws {
        let run = try await Sandbox().run(words)
        #expect(run.exit == 64, "\(run.err)")
        #expect(run.err.contains("otaflash: hint: "))
    }
}
