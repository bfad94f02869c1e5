import DescriptorIO
import Glibc
import OTAFirmware
import OTATestSupport
import Subprocess
import SystemPackage
import Testing

/// Updates in real time over UDP and a serial line. The virtual device is a separate process.
///
/// The tests run one after the other, because the kernel reuses the name of a closed pseudo-terminal.
@Suite("Updates over UDP and serial in real time", .serialized) struct UDPAndSerialTests {
    private static func sandbox(_ options: String..., size: Int = 20_000) async throws -> Sandbox {
        let sandbox = try Sandbox()
        try await sandbox.mcuboot(size: size)
        try await sandbox.create(options: ["--protocol", "smp"] + options)
        return sandbox
    }

    private static let transports = [["--udp", "0"], ["--serial"]]
    private static let framings = [["--serial", "--framing", "raw"], ["--serial", "--framing", "raw-cobs"]]
    /// The number of the value in the middle of a transfer. A push of 500 kB sends some hundred values of 1 to 2 kB.
    private static let midTransfer = 100

    @Test(
        "an update over UDP or serial ends confirmed, and a second push sends nothing",
        arguments: transports + framings)
    func aWholeUpdate(_ transport: [String]) async throws {
        let sandbox = try await Self.sandbox()
        try await sandbox.serving(transport) { address, _ in
            let run = try await sandbox.push(address, image: "fw.signed.bin")
            #expect(run.exit == 0, "\(run.err)")
            let json = try run.json()
            #expect(json.outcome?.string == "confirmed" && json.device?.address?.string == address)
            #expect(json.device?.running_version?.string == "1.1.0")
            let again = try await sandbox.push(address, image: "fw.signed.bin")
            #expect(try again.json().outcome?.string == "already-running")
            let status = try await sandbox.run("status", "--device", address, "--format", "json")
            #expect(try status.json().device?.running_version?.string == "1.1.0")
        }
    }

    @Test("a device on trial that loses power rolls back and keeps the image", arguments: transports)
    func aTrialEndsWithThePower(_ transport: [String]) async throws {
        let sandbox = try await Self.sandbox()
        try await sandbox.serving(transport, endingBy: .kill) { address, _ in
            let run = try await sandbox.push(address, image: "fw.signed.bin", "--no-confirm")
            #expect(run.exit == 0, "\(run.err)")
            #expect(try run.json().outcome?.string == "on-trial")
        }
        try await sandbox.serving(transport) { address, _ in
            let status = try await sandbox.run("status", "--device", address, "--format", "json")
            #expect(try status.json().device?.running_version?.string == "1.0.0")
            // The device still has the image. Only the mark is missing.
            let run = try await sandbox.push(address, image: "fw.signed.bin", "--permanent")
            #expect(run.exit == 0, "\(run.err)")
            #expect(try run.json().transfer?.sent_bytes?.number == 0)
        }
    }

    @Test("a push resumes from the device's offset after kill -9 of the previous push", arguments: transports)
    func aClientThatIsKilledIsFollowedByOneThatGoesOn(_ transport: [String]) async throws {
        let sandbox = try await Self.sandbox(size: 500_000)
        try await sandbox.serving(transport) { device, _ in
            let (clients, started) = AsyncStream<ProcessIdentifier>.makeStream()
            let moment = Relay.Moment(value: Self.midTransfer) { _ in
                for await client in clients.prefix(1) { kill(client.value, SIGKILL) }
            }
            try await Relay.before(device, at: moment) { relay in
                let killed = try await Subprocess.run(
                    .path(Sandbox.binary),
                    arguments: ["push", "fw.signed.bin", "--device", relay.address, "--trust", "release.pub.pem"],
                    environment: sandbox.environment(), workingDirectory: sandbox.folder, input: .none,
                    output: .discarded, error: .discarded
                ) { started.yield($0.processIdentifier) }
                #expect(killed.terminationStatus == .signaled(SIGKILL))
                let run = try await sandbox.push(relay.address, image: "fw.signed.bin")
                #expect(run.exit == 0, "\(run.err)")
                let transfer = try run.json().transfer
                let (from, sent) = (transfer?.resumed_from?.number ?? 0, transfer?.sent_bytes?.number ?? 0)
                #expect(from > 40_000 && from + sent < 510_000)
            }
        }
    }

    /// A UDP socket opens without a device. This socket receives the requests and never answers.
    @Test("a device that never answers is a failed connection and not a lost link")
    func aDeviceThatNeverAnswers() async throws {
        let socket = socket(AF_INET, CInt(SOCK_DGRAM.rawValue), 0)
        defer { close(socket) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(socket, $0, length) == 0 && getsockname(socket, $0, &length) == 0
            }
        }
        try #require(isBound)
        let words = ["status", "--device", "udp:127.0.0.1:\(address.sin_port.bigEndian)", "--timeout", "20s"]
        let run = try await Sandbox().run(words + ["--progress", "json"])
        #expect(run.exit == 75)
        let events = try run.events()
        #expect(events.contains { $0.event?.string == "connection-failed" }, "\(run.err)")
        #expect(!events.contains { ["link-lost", "reconnected"].contains($0.event?.string) }, "\(run.err)")
    }

    @Test("push exits with 75 when the device loses power and does not return", arguments: transports)
    func aDeviceThatLosesPowerAndDoesNotComeBack(_ transport: [String]) async throws {
        let sandbox = try await Self.sandbox(size: 1_900_000)
        try await sandbox.serving(transport) { address, device in
            // The kernel does not reuse the name of a terminal that is still open.
            let terminal = open(String(address.drop { $0 != "/" }), O_RDONLY | O_NOCTTY | O_NONBLOCK)
            defer { if terminal >= 0 { close(terminal) } }
            let words = [
                "push", "fw.signed.bin", "--device", address, "--trust", "release.pub.pem", "--progress", "json",
                "--format", "json",
            ]
            let result = try await Subprocess.run(
                .path(Sandbox.binary), arguments: Arguments(words), environment: sandbox.environment(),
                workingDirectory: sandbox.folder, input: .none, output: .string(limit: 1 << 16), error: .sequence
            ) { execution in
                for try await line in execution.standardError.strings() {
                    let event = try JSONValue(parsing: line)
                    if event.event?.string == "progress", event.offset?.number ?? 0 > 40_000 {
                        kill(device.process.value, SIGKILL)
                    }
                }
            }
            #expect(result.terminationStatus == .exited(75))
            // The code depends on timing: the process may take a while to end, or end only after all bytes were sent.
            let code = try JSONValue(parsing: result.standardOutput).error?.code?.string
            #expect(["link-lost", "no-answer", "did-not-return"].contains(code))
        }
    }

    /// The device reports neither its buffers nor its slots. It accepts a packet only in one value.
    @Test(
        "push to a device without parameters, slots and reassembly uses its buffer size as chunk size",
        arguments: transports + framings)
    func aDeviceThatCanDoLittle(_ transport: [String]) async throws {
        let sandbox = try await Self.sandbox(
            "--without", "parameters", "--without", "slots", "--without", "reassembly", "--buffers", "2",
            "--buffer-size", "384")
        try await sandbox.serving(transport) { address, _ in
            let run = try await sandbox.push(address, image: "fw.signed.bin")
            #expect(run.exit == 0, "\(run.err)")
            #expect(try run.json().outcome?.string == "confirmed")
            // On a serial console, a frame's length and CRC share the buffer of 384 bytes.
            #expect(try run.json().transfer?.chunk_size?.number == (transport == ["--serial"] ? 380 : 384))
        }
    }

    /// MCUboot in RAM-load mode has no marks.
    @Test("push to a device that cannot mark images is refused, except with --upload-only", arguments: transports)
    func aDeviceThatCannotMarkImages(_ transport: [String]) async throws {
        let sandbox = try await Self.sandbox("--without", "marks")
        try await sandbox.serving(transport) { address, _ in
            let run = try await sandbox.push(address, image: "fw.signed.bin")
            #expect(run.exit == 76)
            #expect(try run.json().error?.code?.string == "unsupported-device")
            #expect(try await sandbox.push(address, image: "fw.signed.bin", "--upload-only").exit == 0)
        }
    }

    /// The device loses the upload at the restart.
    @Test("the same push sends the image again from offset 0 after the device restarts", arguments: transports)
    func aDeviceThatRestartsByItself(_ transport: [String]) async throws {
        let sandbox = try await Self.sandbox(size: 500_000)
        try await sandbox.serving(transport) { device, served in
            let moment = Relay.Moment(value: Self.midTransfer) { relay in
                relay.inject(Self.reset)
                _ = await served.notes.first { $0.contains("restarting") }
            }
            try await Relay.before(device, at: moment) { relay in
                let run = try await sandbox.run(
                    "push", "fw.signed.bin", "--device", relay.address, "--trust", "release.pub.pem",
                    "--format", "json", "--progress", "json")
                #expect(run.exit == 0, "\(run.err)")
                let resets = try run.events().filter { $0.event?.string == "device-reset" }
                #expect(resets.map { $0.offset?.number } == [0])
                let json = try run.json()
                #expect(json.outcome?.string == "confirmed" && json.device?.running_version?.string == "1.1.0")
                #expect(json.transfer?.resent_bytes?.number ?? 0 > 40_000)
            }
        }
    }

    /// SMP's reset (version 2, write, group 0, command 5), with an empty map.
    private static let reset: [UInt8] = [0x0A, 0, 0, 1, 0, 0, 0, 5, 0xA0]

    @Test("push over UDP ends confirmed although datagrams are lost, doubled and reordered")
    func aNetworkThatHarms() async throws {
        let sandbox = try await Self.sandbox(size: 300_000)
        try await sandbox.serving(["--udp", "0"]) { device, _ in
            let harm = Relay.Harm(loss: 0.02, doubling: 0.03, delay: 0.03)
            try await Relay.before(device, harm: harm) { relay in
                let run = try await sandbox.push(relay.address, image: "fw.signed.bin")
                #expect(run.exit == 0, "\(run.err)")
                let json = try run.json()
                #expect(json.outcome?.string == "confirmed" && json.device?.running_version?.string == "1.1.0")
                #expect(json.transfer?.gaps?.number ?? 0 > 0)
            }
        }
    }

    /// One device receives all pushes in sequence.
    @Test(
        "a device refuses six images, accepts a trial, discards it, and accepts a permanent update",
        arguments: transports)
    func aLife(_ transport: [String]) async throws {
        let sandbox = try await Self.sandbox(size: 512 << 10)
        try await sandbox.mcuboot(key: "stranger", as: "foreign.bin")
        try await sandbox.mcuboot(size: 2 << 20, as: "large.bin")
        try await sandbox.mcuboot(version: "0.9.0", as: "old.bin")
        try await sandbox.mcuboot(version: "1.2.0", as: "next.bin", options: ["--pure"])
        try await sandbox.mcuboot(size: 1_900 << 10, version: "1.3.0", as: "last.bin")
        try sandbox.write("raw.bin", Sandbox.image(1000))
        try await sandbox.serving(transport) { address, _ in
            let ends: [(words: [String], exit: Int32, code: String)] = [
                (["raw.bin"], 65, "bad-magic"),
                (["foreign.bin"], 77, "untrusted-key"),
                (["large.bin"], 77, "image-too-large"),
                (["old.bin", "--no-downgrade"], 77, "downgrade"),
                (["next.bin"], 77, "wrong-image-format"),
                (["foreign.bin", "--unverified-image"], 78, "rolled-back"),
            ]
            for end in ends {
                let run = try await sandbox.push(address, image: end.words[0], end.words[1...])
                #expect(run.exit == end.exit, "\(end.words): \(run.err)")
                #expect(try run.json().error?.code?.string == end.code, "\(end.words): \(run.out)")
            }
            #expect(try await sandbox.push(address, image: "fw.signed.bin", "--no-confirm").exit == 0)
            let other = try await sandbox.push(address, image: "last.bin")
            #expect(other.exit == 77, "\(other.err)")
            #expect(try other.json().error?.code?.string == "in-trial")
            let back = try await sandbox.run("discard", "--device", address, "--format", "json")
            #expect(try back.json().device?.running_version?.string == "1.0.0", "\(back.err)")
            let last = try await sandbox.push(address, image: "last.bin")
            #expect(last.exit == 0, "\(last.err)")
            let json = try last.json()
            #expect(json.outcome?.string == "confirmed" && json.device?.running_version?.string == "1.3.0")
        }
    }

    @Test("an address without a device exits with 75, and a path that is not a serial port with 69")
    func nobodyIsThere() async throws {
        let sandbox = try await Self.sandbox()
        let address = try await sandbox.serving(["--udp", "0"]) { address, _ in address }
        let run = try await sandbox.push(address, image: "fw.signed.bin")
        #expect(run.exit == 75, "\(run.err)")
        #expect(try run.json().error?.code?.string == "no-such-device")
        #expect(try await sandbox.run("status", "--device", "serial:/dev/no-such-port").exit == 75)
        #expect(try await sandbox.run("status", "--device", "serial:/dev/null").exit == 69)
        #expect(try await sandbox.run("status", "--device", "udp:board.invalid").exit == 75)
    }

    @Test("a second command on a serial port in use is refused with device-in-use")
    func oneAtATime() async throws {
        let sandbox = try await Self.sandbox(size: 500_000)
        try await sandbox.serving(["--serial"]) { device, _ in
            let second = Guarded<Run?>(nil)
            let moment = Relay.Moment(value: Self.midTransfer) { relay in
                let run = try? await sandbox.run("status", "--device", relay.address, "--format", "json")
                second.with { $0 = run }
            }
            try await Relay.before(device, at: moment) { relay in
                let run = try await sandbox.push(relay.address, image: "fw.signed.bin")
                #expect(run.exit == 0, "\(run.err)")
            }
            let held = second.exchange(nil)
            #expect(held?.exit == 75)
            #expect(try held?.json().error?.code?.string == "device-in-use")
        }
    }

    @Test(
        "a malformed UDP or serial address is refused with 64",
        arguments: ["udp:", "udp:fe80::1", "udp:host:0", "serial:", "serial:ttyACM0", "serial:/dev/ttyACM0?baud=1"])
    func badAddresses(_ address: String) async throws {
        let run = try await Sandbox().run("status", "--device", address, "--format", "json")
        #expect(run.exit == 64)
        #expect(try run.json().error?.code?.string == "usage")
    }

    @Test(
        "an option for BLE is refused with a UDP address",
        arguments: [["--protocol", "ota"], ["--adapter", "hci0"], ["--passkey", "123456"]])
    func whatIsForBluetoothOnly(_ options: [String]) async throws {
        let run = try await Sandbox().run(["status", "--device", "udp:127.0.0.1"] + options)
        #expect(run.exit == 64, "\(run.err)")
    }

    // 192.0.2.1 is an address for documentation (RFC 5737), so no machine has it.
    @Test(
        "simulate serve suggests an address of this machine if the host of --udp is another one",
        arguments: [("a..b", "cannot resolve the host a..b"), ("192.0.2.1", "cannot listen on udp:192.0.2.1:1337")])
    func aHostThatIsNotThisMachine(_ host: String, _ message: String) async throws {
        let sandbox = try await Self.sandbox()
        let run = try await sandbox.run("simulate", "serve", "kitchen", "--udp", "\(host):1337")
        #expect(run.exit == 69 && run.err.contains(message), "\(run.err)")
        #expect(
            run.err.contains("hint: use an address of this machine: ip address; or only a port: --udp 1337"),
            "\(run.err)")
        #expect(!run.err.contains("ss -lup"))
    }

    /// The message marks the image for boot: an SMP header (write, group 1, command 0), and a CBOR map with `hash` and `confirm`.
    private static func mark(_ digest: String, at address: String) throws -> Bool {
        let hash = try #require(Hex.decode(digest))
        let body = [0xA2, 0x64] + Array("hash".utf8) + [0x58, 0x20] + hash + [0x67] + Array("confirm".utf8) + [0xF4]
        let packet: [UInt8] = [0x0A, 0, 0, UInt8(body.count), 0, 1, 5, 0] + body
        let socket = socket(AF_INET, CInt(SOCK_DGRAM.rawValue), 0)
        defer { close(socket) }
        var server = sockaddr_in()
        server.sin_family = sa_family_t(AF_INET)
        server.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        server.sin_port = try #require(address.split(separator: ":").last.flatMap { UInt16($0) }).bigEndian
        var answer = [UInt8](repeating: 0, count: 1500)
        return withUnsafePointer(to: &server) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
                    && send(socket, packet, packet.count, 0) == packet.count
                    && recv(socket, &answer, answer.count, 0) > 8
            }
        }
    }

    @Test("push --upload-only of an image that is marked for boot reports the mark")
    func anUploadOfAMarkedImage() async throws {
        let sandbox = try await Self.sandbox()
        try await sandbox.serving(["--udp", "0"]) { address, _ in
            let words = ["push", "fw.signed.bin", "--device", address, "--trust", "release.pub.pem", "--upload-only"]
            let first = try await sandbox.run(words)
            #expect(
                first.exit == 0 && first.out.contains("holds the new image, not marked for boot"),
                "\(first.out)\(first.err)")
            let status = try await sandbox.run("status", "--device", address, "--format", "json").json()
            #expect(try Self.mark(#require(status.slots?[1]?.sha256?.string), at: address))
            let second = try await sandbox.run(words)
            #expect(second.exit == 0, "\(second.err)")
            #expect(
                second.out.contains("holds the new image, already marked for the next boot, and still runs 1.0.0"),
                "\(second.out)")
        }
    }

    @Test("simulate serve refuses a device with the OTA profile, and two transports at once")
    func aDeviceWithTheProfileIsNotServedThere() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.create()
        #expect(try await sandbox.run("simulate", "serve", "kitchen", "--udp", "0").exit == 64)
        #expect(try await sandbox.run("simulate", "serve", "kitchen", "--udp", "0", "--serial").exit == 64)
    }

    /// smpclient from PyPI is an independent SMP client.
    @Test("smpclient from PyPI updates a virtual SMP device and confirms the image")
    func theClientOfOthers() async throws {
        let sandbox = try await Self.sandbox(size: 100_000)
        try await sandbox.serving(["--udp", "0"]) { address, _ in
            let script = FilePath(#filePath).removingLastComponent().appending("Support/smp_update.py").string
            let port = address.split(separator: ":").last.map(String.init) ?? ""
            let client = try await Command.run(
                PythonEnvironment.python, [script, port, sandbox.path("fw.signed.bin")])
            #expect(client.succeeded, "\(client.errorText)")
            #expect(client.outputText == "1.1.0 confirmed\n")
            let status = try await sandbox.run("status", "--device", address, "--format", "json")
            #expect(try status.json().device?.running_version?.string == "1.1.0")
        }
    }
}
