import FakeBlueZ
import OTACommands
import Testing

@Suite("Command doctor") struct DoctorTests {
    @Test("doctor exits with 0 and reports adapter, versions and trusted keys when all checks pass")
    func allIsWell() async throws {
        try await World.run { world in
            let sandbox = try Sandbox()
            try await sandbox.releaseForWorld()
            let run = try await sandbox.run("doctor", "--trust", "world.pub.pem", "--format", "json", in: world)
            #expect(run.exit == 0, "\(run.out)")
            let answer = try run.json()
            #expect(answer.ok?.bool == true)
            #expect(answer.trust?.keys?.array?.map(\.string) == ["21fe31dfa154a261"])
            #expect(answer.versions?.libdbus?.string?.split(separator: ".").count == 3)
            #expect(Self.states(answer)["adapter"] == "ok" && Self.states(answer)["bluetoothd"] == "ok")
        }
    }

    @Test("doctor names each missing part with the command that fixes it, and exits with 69")
    func whatIsMissingIsNamedWithWhatToType() async throws {
        try await World.run { world in
            try await world.setPower(false)
            let run = try await Sandbox().run("doctor", "--format", "json", in: world)
            #expect(run.exit == 69)
            let answer = try run.json()
            #expect(answer.ok?.bool == false && answer.error?.code?.string == "not-ready")
            #expect(Self.states(answer)["adapter"] == "missing" && Self.states(answer)["trust"] == "missing")
            #expect(answer.error?.hint?.string?.contains("bluetoothctl power on") == true)
            #expect(run.err.contains("otaflash: hint: switch it on: bluetoothctl power on"))
        }
    }

    @Test("doctor reports a missing D-Bus daemon with the command that starts it")
    func noBus() async throws {
        let run = try await Sandbox().run(
            "doctor", env: ["DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent"])
        #expect(run.exit == 69)
        #expect(run.out.contains("missing  dbus"))
        #expect(run.out.contains("sudo systemctl start dbus"))
        // One missing part hides no other check.
        for name in ["bluetoothd", "permission", "adapter", "rfkill", "serial", "udp", "trust"] {
            #expect(run.out.contains("  \(name) "), "\(name)\n\(run.out)")
        }
        #expect(run.out.contains("unknown  permission"))
    }

    @Test("without bluetoothd, doctor reads the adapters from the kernel")
    func adaptersOfTheKernel() throws {
        let sandbox = try Sandbox()
        #expect(AdapterCheck.kernelAdapters(in: sandbox.path("none")) == [])
        for entry in ["hci0", "hci1", "hci0:64"] { try sandbox.makeFolder("bluetooth/\(entry)") }
        let adapters = AdapterCheck.kernelAdapters(in: sandbox.path("bluetooth"))
        #expect(adapters == ["hci0", "hci1"])
        #expect(AdapterCheck.examine(nil, ofKernel: []).state == .missing)
        #expect(AdapterCheck.examine(nil, ofKernel: adapters).state == .unknown)
        #expect(AdapterCheck.examine("hci1", ofKernel: adapters).state == .unknown)
        let other = AdapterCheck.examine("hci7", ofKernel: adapters)
        #expect(other.state == .missing && other.advice?.first?.contains("hci0, hci1") == true)
    }

    @Test("doctor finds the serial ports of boards and of USB adapters")
    func serialPorts() throws {
        let sandbox = try Sandbox()
        try sandbox.makeFolder("dev")
        for name in ["ttyACM0", "ttyUSB1", "ttyS0", "null"] { try sandbox.write("dev/\(name)", []) }
        let ports = SerialPort.all(in: sandbox.path("dev"))
        #expect(ports.map(\.path) == ["ttyACM0", "ttyUSB1"].map { sandbox.path("dev/\($0)") })
        #expect(SerialPort.check(ports).state == .ok && SerialPort.check([]).state == .ok)
    }

    @Test("doctor names the group to join for a serial port that the user cannot open")
    func serialPermission() {
        let open = SerialPort(path: "/dev/ttyACM0", isAccessible: true, group: "dialout")
        let closed = SerialPort(path: "/dev/ttyUSB0", isAccessible: false, group: "dialout")
        let check = SerialPort.check([open, closed])
        #expect(check.state == .missing && check.message.contains("/dev/ttyUSB0") && !check.message.contains("ttyACM0"))
        #expect(check.advice?.first == "join the group: sudo usermod -aG dialout $USER")
        let rootOnly = SerialPort.check([SerialPort(path: "/dev/ttyUSB0", isAccessible: false, group: nil)])
        #expect(rootOnly.state == .missing && rootOnly.advice?.first?.contains("setfacl") == true)
    }

    private static func states(_ answer: JSONValue) -> [String: String] {
        var states: [String: String] = [:]
        for check in answer.checks?.array ?? [] {
            if let name = check.name?.string { states[name] = check.state?.string }
        }
        return states
    }

    // MARK: - Settings

    /// The settings of Debian 12. A commented-out line shows the default of that version.
    @Test("doctor reports the default BlueZ settings of Debian 12 as slow")
    func theDefaultsCostSpeed() {
        let settings = SpeedSettings(
            parsing: "[General]\n#Channels = 9\n[LE]\n#MinConnectionInterval=\n[GATT]\n# Default to 3\n#Channels = 3\n")
        #expect(settings.channels == 3 && settings.longestInterval == nil)
        let checks = settings.checks(of: "/etc/bluetooth/main.conf")
        #expect(checks.map(\.state) == [.slow, .slow])
        #expect(checks.first?.advice?.first == "in /etc/bluetooth/main.conf, under [GATT]: Channels = 1")
    }

    @Test("doctor reports one GATT channel and a short connection interval as ok")
    func settingsThatCostNothing() {
        let settings = SpeedSettings(
            parsing:
                "[GATT]\n#Channels = 3\n Channels = 1 \n[LE]\nMinConnectionInterval=6\nMaxConnectionInterval = 12\n")
        #expect(settings.channels == 1 && settings.longestInterval == 12)
        #expect(settings.checks(of: "main.conf").map(\.state) == [.ok, .ok])
    }

    @Test(
        "the path of the settings file is read from the arguments of bluetoothd",
        arguments: [
            (["bluetoothd"], nil), (["bluetoothd", "-E", "-f", "/tmp/a"], "/tmp/a"),
            (["bluetoothd", "--configfile=/tmp/b"], "/tmp/b"), (["bluetoothd", "-f"], nil),
        ] as [([String], String?)])
    func theSettingsInForce(words: [String], file: String?) {
        #expect(BluetoothDaemon.configuration(in: words) == file)
    }

    @Test(
        "doctor reports a blocked Bluetooth radio switch and how to unblock it",
        arguments: [
            ("0", "0", "ok", ""), ("1", "0", "missing", "rfkill unblock bluetooth"), ("0", "1", "missing", "switch"),
        ])
    func switches(soft: String, hard: String, state: String, advice: String) throws {
        let sandbox = try Sandbox()
        for (entry, type) in [("rfkill0", "wlan"), ("rfkill1", "bluetooth")] {
            try sandbox.makeFolder("rfkill/\(entry)")
            try sandbox.write("rfkill/\(entry)/type", Array("\(type)\n".utf8))
            try sandbox.write("rfkill/\(entry)/name", Array("hci0\n".utf8))
            try sandbox.write("rfkill/\(entry)/soft", Array("\(type == "wlan" ? "1" : soft)\n".utf8))
            try sandbox.write("rfkill/\(entry)/hard", Array("\(hard)\n".utf8))
        }
        let check = RadioSwitch.check(RadioSwitch.all(in: sandbox.path("rfkill")))
        #expect(check.state.rawValue == state)
        #expect(advice.isEmpty || check.advice?.first?.contains(advice) == true)
    }
}
