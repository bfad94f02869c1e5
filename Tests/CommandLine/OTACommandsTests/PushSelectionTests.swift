import FakeBlueZ
import OTACommands
import OTAFirmware
import Subprocess
import Testing

@Suite("Command push --all with a fake bluetoothd") struct PushSelectionTests {
    private static let far = FakeBlueZ.Neighbour(
        "00:AA:01:07:00:42", "Hall", services: ["c7e10001-63a0-486d-9bcb-a18d79d9acd9"], rssi: -90)

    /// Runs `push fw.otaf --all` near the device `Virtual` with product `demo` and version 1.0.0, and a device whose product cannot be read.
    private func push(
        _ options: String..., then check: @escaping @Sendable (World, Run) async throws -> Void
    ) async throws {
        try await World.run(neighbours: [Self.far]) { world in
            let sandbox = try Sandbox()
            try await sandbox.releaseForWorld()
            let words = [
                "push", "fw.otaf", "--all", "--trust", "world.pub.pem", "--format", "json", "--progress", "none",
            ]
            try await check(world, try await sandbox.run(words + options, env: Sandbox.environment(of: world)))
        }
    }

    @Test("--all updates the devices in range with the product of the bundle, and no others")
    func all() async throws {
        try await push("--yes", "--running", "<1.1.0", "--name", "Virt*") { world, run in
            #expect(run.exit == 0, "\(run.err)")
            let json = try run.json()
            #expect(json.summary?.confirmed?.number == 1 && json.devices?.array?.count == 1)
            #expect(json.devices?[0]?.device?.address?.string == world.device)
        }
    }

    @Test("--all --list lists the devices that match, and changes nothing")
    func list() async throws {
        try await push("--list") { world, run in
            #expect(run.exit == 0, "\(run.err)")
            let devices = try #require(try run.json().devices?.array)
            #expect(devices.map { $0.address?.string } == [world.device])
            #expect(devices[0].version?.string == "1.0.0" && devices[0].product?.string == "demo")
        }
    }

    @Test(
        "if no device matches the options, push ends with 75",
        arguments: [["--running", ">=1.1.0"], ["--name", "Hall"], ["--product", "lamp"]])
    func noMatch(options: [String]) async throws {
        try await push("--yes", options[0], options[1]) { _, run in
            #expect(run.exit == 75, "\(run.err)")
            let error = try run.json().error
            #expect(error?.code?.string == "no-device-matches")
            #expect(error?.message?.string?.contains("2 other devices were found") == true, "\(run.out)")
        }
    }

    @Test(
        "with several adapters, a device goes to the adapter that hears it best, and the result names the adapter",
        arguments: [(-80, "hci0"), (-20, "hci1")] as [(Int16, String)], [[], ["named"]] as [[String]])
    func adapters(second: (rssi: Int16, best: String), named: [String]) async throws {
        try await World.run(secondRSSI: second.rssi) { world in
            let sandbox = try Sandbox()
            try await sandbox.releaseForWorld()
            let adapters = ["--adapter", "hci0", "--adapter", "hci1", "--trust", "world.pub.pem"]
            let all = ["--all", "--product", "demo", "--yes"]
            let devices = named.isEmpty ? all : ["--device", world.device, "--device", "sim:none"]
            let run = try await sandbox.run(
                ["push", "fw.otaf"] + devices + adapters + ["--format", "json", "--progress", "none"],
                env: Sandbox.environment(of: world))
            let entry = try #require(try run.json().devices?[0], "\(run.err)")
            #expect(entry.adapter?.string == second.best, "\(run.out)")
            // The second adapter of the fake cannot connect.
            #expect(entry.outcome?.string == (second.best == "hci0" ? "confirmed" : "failed"), "\(run.out)")
            if !named.isEmpty { #expect(try run.json().devices?[1]?.adapter == nil) }
        }
    }

    @Test("--all --list shows the adapter of each device, and an adapter that does not exist is refused")
    func listedAdapters() async throws {
        try await World.run(secondRSSI: -20) { world in
            let sandbox = try Sandbox()
            try await sandbox.releaseForWorld()
            let words = ["push", "fw.otaf", "--trust", "world.pub.pem", "--progress", "none", "--adapter", "hci1"]
            let environment = Sandbox.environment(of: world)
            let list = try await sandbox.run(words + ["--adapter", "hci0", "--all", "--list"], env: environment)
            let header = list.out.split(separator: "\n").first?.split(separator: " ").joined(separator: " ")
            #expect(header == "NAME ADDRESS RSSI ADAPTER PRODUCT VERSION PROTOCOLS", "\(list.out)\(list.err)")
            #expect(list.out.contains("-20 dBm  hci1"), "\(list.out)")
            for devices in [["--all", "--list"], ["--device", world.device, "--device", "sim:none"]] {
                let run = try await sandbox.run(words + ["--adapter", "hci7"] + devices, env: environment)
                #expect(run.exit == 69 && run.err.contains("there is no adapter hci7"), "\(run.err)")
            }
        }
    }

    @Test("without a terminal, --all requires --yes or --list")
    func consent() async throws {
        try await push { _, run in
            #expect(run.exit == 64 && run.err.contains("there is no terminal"), "\(run.err)")
            #expect(run.err.contains("push fw.otaf --trust world.pub.pem --all --list"), "\(run.err)")
        }
    }

    @Test(
        "on a terminal, push lists the devices and asks; without a yes, it changes nothing (exit 77)",
        arguments: [("n", 77), ("y", 0)] as [(String, Int32)])
    func question(answer: String, exit: Int32) async throws {
        try await World.run { world in
            let sandbox = try Sandbox()
            try await sandbox.releaseForWorld()
            let (status, screen) = try await sandbox.onTerminal(
                "push", "fw.otaf", "--all", "--trust", "world.pub.pem", env: Sandbox.environment(of: world),
                typing: [(prompt: "Update this device? [y/N] ", answer: answer + "\n")])
            #expect(status == .exited(exit), "\(screen)")
            #expect(screen.contains("Virtual  ble:00:AA:01:01:00:42"), "\(screen)")
            #expect(screen.contains("1 confirmed") == (exit == 0), "\(screen)")
        }
    }

    @Test(
        "options of --all without --all, and --all with --device, are refused",
        arguments: [
            (["--device", "sim:", "--running", "<1.0.0"], "--running requires --all"),
            (["--device", "sim:", "--yes"], "--yes requires --all"),
            (["--all", "--device", "sim:"], "omit --device"),
            (["--all", "--running", "1.0.0"], "is not a condition for a version"),
            (["--all", "--adapter", "hci0", "--adapter", "hci0"], "--adapter hci0 is given twice"),
            (["--all", "--adapter", "hci0", "--adapter", "usb"], "'usb' is not the name of an adapter"),
            (["--device", "ble:", "--adapter", "hci0", "--adapter", "hci1"], "One device uses one adapter"),
        ])
    func refusals(options: [String], text: String) async throws {
        let run = try await Sandbox().run(["push", "fw.otaf"] + options)
        #expect(run.exit == 64 && run.err.contains(text), "\(run.err)")
    }

    /// The order of the versions is the example in SemVer 2.0.0, item 11.
    @Test("a condition compares versions as SemVer does")
    func conditions() throws {
        let order = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta", "1.0.0-rc.1", "1.0.0", "1.10.0", "2.0.0"]
            .compactMap { SemanticVersion($0) }
        #expect(order.count == 7)
        for (index, limit) in order.enumerated() {
            func included(_ sign: String) throws -> [Bool] {
                let condition = try #require(VersionCondition(sign + limit.text))
                return order.map(condition.includes)
            }
            #expect(try included("<") == order.indices.map { $0 < index })
            #expect(try included("<=") == order.indices.map { $0 <= index })
            #expect(try included("=") == order.indices.map { $0 == index })
            #expect(try included(">=") == order.indices.map { $0 >= index })
            #expect(try included(">") == order.indices.map { $0 > index })
        }
        for text in ["", "1.0.0", "<", "<1", "=<1.0.0", "< 1.0.0", "!=1.0.0"] { #expect(VersionCondition(text) == nil) }
    }
}
