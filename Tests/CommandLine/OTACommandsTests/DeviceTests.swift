import Glibc
import OTAFirmware
import OTASigning
import Testing

@Suite("Commands status, discard, identify and simulate") struct DeviceTests {
    @Test("simulate creates, lists and removes a virtual device")
    func aVirtualDeviceComesAndGoes() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let none = try await sandbox.run("simulate", "list", "--format", "json")
        #expect(try none.exit == 0 && none.json().devices == .array([]))

        let made = try await sandbox.run(
            "simulate", "create", "kitchen", "--product", "demo", "--version", "1.0.0", "--hardware", "3", "--counter",
            "4",
            "--trust", "release.pub.pem", "--format", "json")
        #expect(made.exit == 0, "\(made.err)")
        let list = try await sandbox.run("simulate", "list", "--format", "json").json()
        #expect(list.members == ["command", "devices", "exit", "ok", "schema"])
        #expect(try list.devices == made.json().devices)
        let device = try #require(list.devices?[0])
        #expect(
            device.members == [
                "address", "hardware", "product", "protocol", "required_signatures", "security_counter", "version",
            ])
        #expect(device.address?.string == "sim:kitchen" && device.version?.string == "1.0.0")
        #expect(device.hardware?.number == 3 && device.security_counter?.number == 4)
        #expect(
            try await sandbox.run("simulate", "list").out.contains(
                "sim:kitchen  ota       demo     1.0.0    3         4"))

        let again = try await sandbox.run(
            "simulate", "create", "kitchen", "--product", "demo", "--version", "1.0.0", "--trust", "release.pub.pem",
            "--format", "json")
        #expect(again.exit == 73)
        #expect(try again.json().error?.code?.string == "device-exists")
        #expect(try await sandbox.run("simulate", "remove", "kitchen").exit == 0)
        #expect(try await sandbox.run("simulate", "remove", "kitchen").exit == 69)
        #expect(try await sandbox.run("simulate", "list", "--format", "json").json().devices == .array([]))
    }

    @Test(
        "a virtual device rolls back an image with the text otaflash-does-not-start, and keeps it after an update without"
    )
    func doesNotStart() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.create()
        try sandbox.write("bad.bin", try sandbox.read("fw.bin") + Array("otaflash-does-not-start".utf8))
        let signed = try await sandbox.run(
            "sign", "bad.bin", "--key", "release.pem", "--product", "demo", "--version", "1.2.0", "-o", "bad.otaf")
        #expect(signed.exit == 0)
        let bad = try await sandbox.push("sim:kitchen?pace=virtual", bundle: "bad.otaf")
        #expect(try bad.exit == 78 && bad.json().error?.code?.string == "rolled-back", "\(bad.err)")
        #expect(try await sandbox.push("sim:kitchen?pace=virtual").exit == 0)
    }

    @Test("simulate create --largest-counter-step makes a device that refuses a larger step of the counter")
    func counterStep() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release("--counter", "7")
        try await sandbox.create("--largest-counter-step", "6")
        let refused = try await sandbox.push("sim:kitchen?pace=virtual")
        #expect(try refused.exit == 77 && refused.json().error?.code?.string == "refused-by-policy", "\(refused.err)")
        try await sandbox.release(as: "next.otaf", "--counter", "6")
        #expect(try await sandbox.push("sim:kitchen?pace=virtual", bundle: "next.otaf").exit == 0)
    }

    @Test(
        "simulate create refuses an invalid name or option with 64",
        arguments: [
            ["kit/chen", "--product", "demo", "--version", "1.0.0"],
            ["kitchen", "--product", "a b", "--version", "1.0.0"],
            ["kitchen", "--product", "demo", "--version", "1"], ["kitchen", "--product", "demo"],
            ["kitchen", "--product", "demo", "--version", "1.0.0", "--hardware", "-1"],
            ["kitchen", "--product", "demo", "--version", "1.0.0", "--image-format", "elf"],
            ["kitchen", "--product", "demo", "--version", "1.0.0", "--trial", "-5"],
            ["kitchen", "--product", "demo", "--version", "1.0.0", "--require-algorithm", "rsa"],
            ["kitchen", "--product", "demo", "--version", "1.0.0", "--largest-envelope", "157"],
        ])
    func aVirtualDeviceHasToBePossible(words: [String]) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        #expect(try await sandbox.run(["simulate", "create", "--trust", "release.pub.pem"] + words).exit == 64)
    }

    @Test("a hybrid virtual device refuses a bundle without its ML-DSA signature")
    func hybridDevice() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        // This key has no private key, so the test needs no libcrypto with ML-DSA.
        let key = try PublicKey(algorithm: .mlDSA65, bytes: [UInt8](repeating: 1, count: 1952))
        try sandbox.write("pq.pub.pem", try key.pem().withUnsafeBytes { Array($0) })
        try await sandbox.create(options: [
            "--trust", "release.pub.pem", "--trust", "pq.pub.pem", "--require-algorithm", "ed25519",
            "--require-algorithm", "ml-dsa-65",
        ])
        let run = try await sandbox.run(
            "push", "fw.otaf", "--device", "sim:kitchen?pace=virtual", "--trust", "release.pub.pem", "--format", "json")
        #expect(try run.exit == 77 && run.json().error?.code?.string == "untrusted-by-device", "\(run.out)")
        let status = try await sandbox.run("status", "--device", "sim:kitchen?pace=virtual", "--format", "json")
        #expect(try status.json().device?.keys?.array?.map(\.string).contains(key.id.description) == true)
    }

    @Test("a push refuses an envelope that does not fit in the device's buffer, and names the buffer's configuration")
    func smallBuffer() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.create(options: ["--trust", "release.pub.pem", "--largest-envelope", "158"])
        let push = ["push", "fw.otaf", "--device", "sim:kitchen?pace=virtual", "--trust", "release.pub.pem"]
        let run = try await sandbox.run(push + ["--format", "json"])
        #expect(try run.exit == 77 && run.json().error?.code?.string == "envelope-too-large", "\(run.out)")
        #expect(try run.json().error?.hint?.string?.contains("ota_config.largest_envelope") == true)
    }

    @Test(
        "an answer time out of range is refused with the value, the option and the range",
        arguments: ["99999999", "-1"])
    func answerTimeHasARange(value: String) async throws {
        let run = try await Sandbox().run(
            "simulate", "create", "slow", "--protocol", "smp", "--product", "demo", "--version", "1.0.0",
            "--answer-time=\(value)")
        #expect(run.exit == 64)
        #expect(
            run.err.contains(
                "'\(value)' is invalid for '--answer-time <ms>': expected a whole number from 0 to 60000."))
    }

    @Test("a virtual device with a damaged file is refused with device-malformed")
    func whatLiesInItsFolderIsLookedAt() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.create()
        let json = try sandbox.read("state/kitchen/device.json")
        let flash = try sandbox.read("state/kitchen/flash")
        for (file, bytes) in [
            ("device.json", []), ("device.json", Array(json.prefix(20))), ("flash", Array(flash.prefix(99))),
        ] {
            try sandbox.write("state/kitchen/device.json", json)
            try sandbox.write("state/kitchen/flash", flash)
            try sandbox.write("state/kitchen/\(file)", bytes)
            let run = try await sandbox.run("status", "--device", "sim:kitchen", "--format", "json")
            #expect(run.exit == 65, "\(file): \(run.err)")
            #expect(try run.json().error?.code?.string == "device-malformed")
        }
    }

    @Test("simulate list reports a damaged device as unreadable and still lists the others")
    func whatCannotBeReadIsListedAsThat() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.create()
        try sandbox.makeFolder("state/attic")
        try sandbox.write("state/attic/device.json", [0x7B])
        let run = try await sandbox.run("simulate", "list", "--format", "json")
        #expect(run.exit == 0 && run.err.contains("otaflash: warning: sim:attic cannot be read: "))
        #expect(run.err.contains("otaflash simulate remove attic"))
        let json = try run.json()
        #expect(json.devices?.array?.count == 1 && json.devices?[0]?.address?.string == "sim:kitchen")
        let unreadable = JSONValue.object(["address": .string("sim:attic"), "code": .string("device-malformed")])
        #expect(json.unreadable == .array([unreadable]))
        let text = try await sandbox.run("simulate", "list")
        #expect(text.exit == 0 && text.out.contains("sim:kitchen") && !text.out.contains("attic"))

        // Another device can still be created, and the damaged one can be removed.
        try await sandbox.run("simulate", "remove", "kitchen")
        try await sandbox.create()
        #expect(try await sandbox.run("simulate", "remove", "attic").exit == 0)
        #expect(try await sandbox.run("simulate", "list", "--format", "json").json().unreadable == nil)
    }

    @Test("simulate serve of a good device succeeds beside damaged devices, and names the protocol of the device")
    func servesBesideDamage() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.create(options: ["--protocol", "smp"])
        for name in ["attic", "hall"] {
            try sandbox.makeFolder("state/\(name)")
            try sandbox.write("state/\(name)/device.json", [0x7B])
        }
        let run = try await sandbox.shell(
            """
            "$0" "$@" 2>served & until grep -q ' is at ' served; do sleep 0.05; done
            kill $!; wait $!; echo "exit $?"; cat served
            """, "simulate", "serve", "kitchen", "--udp", "0")
        #expect(run.out.contains("exit 0\n"), "\(run.out)")
        #expect(run.out.contains("sim:kitchen is no longer served; it runs demo 1.0.0, SMP.\n"))
        #expect(run.out.contains("sim:kitchen (SMP) is at udp:127.0.0.1:"))
    }

    @Test("a virtual device with a missing file is reported as damaged, and the hint removes this device")
    func missingFiles() async throws {
        for file in ["flash", "device.json"] {
            let sandbox = try Sandbox()
            try await sandbox.release()
            try await sandbox.create()
            #expect(unlink(sandbox.path("state/kitchen/\(file)")) == 0)
            let run = try await sandbox.run("status", "--device", "sim:kitchen", "--format", "json")
            let error = try run.json().error
            #expect(run.exit == 65 && error?.code?.string == "device-malformed", "\(run.err)")
            #expect(error?.message?.string?.hasSuffix("/kitchen/\(file) is missing") == true)
            #expect(error?.hint?.string?.contains("otaflash simulate remove kitchen") == true)
            #expect(try await sandbox.run("simulate", "remove", "kitchen").exit == 0)
            try await sandbox.create()
        }
        // A folder that is not a device is not removed, and the error does not suggest it.
        let sandbox = try Sandbox()
        try await sandbox.release()
        try sandbox.makeFolder("state/kitchen/precious")
        let made = try await sandbox.run(
            "simulate", "create", "kitchen", "--product", "demo", "--version", "1.0.0", "--trust", "release.pub.pem")
        #expect(made.exit == 73 && !made.err.contains("simulate remove"), "\(made.err)")
        // Neither is a folder with a folder `flash`, nor a device with a file of another program.
        try sandbox.makeFolder("state/kitchen/flash")
        #expect(try await sandbox.run("simulate", "remove", "kitchen").exit == 69)
        #expect(sandbox.exists("state/kitchen/precious"))
        try sandbox.write("state/kitchen/device.json", [])
        let refused = try await sandbox.run("simulate", "remove", "kitchen")
        #expect(refused.exit == 73 && refused.err.contains("also contains precious"), "\(refused.err)")
    }

    @Test("a virtual device with --signatures 2 refuses a bundle with one signature, and accepts it with two")
    func requiredSignatures() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        #expect(try await sandbox.run("keygen", "second").exit == 0)
        try await sandbox.create(options: [
            "--trust", "release.pub.pem", "--trust", "second.pub.pem", "--signatures", "2",
        ])
        let list = try await sandbox.run("simulate", "list", "--format", "json").json()
        #expect(list.devices?[0]?.required_signatures?.number == 2)
        let device = "sim:kitchen?pace=virtual"
        let one = try await sandbox.push(device)
        #expect(one.exit == 77, "\(one.err)")
        let signed = try await sandbox.run("sign", "fw.otaf", "--key", "second.pem", "--force")
        #expect(signed.exit == 0, "\(signed.err)")
        #expect(try await sandbox.push(device).exit == 0)
        // More signatures than keys are not possible, and SMP has no such number.
        for words in [["--signatures", "2"], ["--signatures", "1", "--protocol", "smp"]] {
            let run = try await sandbox.run(
                ["simulate", "create", "hall", "--product", "demo", "--version", "1.0.0", "--trust", "release.pub.pem"]
                    + words)
            #expect(run.exit == 64, "\(run.err)")
        }
    }

    @Test("status reports state, version and battery as JSON and as text")
    func statusAnswers() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.create()
        let json = try await sandbox.run(
            "status", "--device", "sim:kitchen?battery=80&pace=virtual", "--format", "json"
        ).json()
        #expect(json.members == ["command", "device", "exit", "ok", "protocol", "schema"] && !json.holdsNull)
        let device = try #require(json.device)
        #expect(
            device.members == [
                "address", "battery", "confirmed", "encodings", "given", "hardware", "keys", "largest_base", "name",
                "product", "running_version", "security_counter", "state", "trial_seconds",
            ])
        #expect(
            device.given?.string == "sim:kitchen?battery=80&pace=virtual" && device.address?.string == "sim:kitchen")
        #expect(device.state?.string == "idle" && device.battery?.number == 80)
        let text = try await sandbox.run("status", "--device", "sim:kitchen?pace=virtual")
        #expect(text.out.contains("1.0.0, confirmed") && text.out.contains("mains"))
        #expect(text.out.contains("GATT OTA profile"))
    }

    @Test("status shows the key ids that a device trusts, and the manifest of the release that it runs")
    func keysAndManifest() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.create()
        let words = ["push", "fw.otaf", "--device", "sim:kitchen?pace=virtual", "--trust", "release.pub.pem"]
        #expect(try await sandbox.run(words).exit == 0)
        let status = ["status", "--device", "sim:kitchen?pace=virtual"]
        let device = try await sandbox.run(status + ["--format", "json"]).json().device
        let key = try await sandbox.run("inspect", "release.pub.pem", "--format", "json").json().key?.key_id?.string
        #expect(key != nil && device?.keys?.array?.map(\.string) == [key])
        let bundle = try await sandbox.run("inspect", "fw.otaf", "--format", "json").json().bundle
        let prefix = String(try #require(bundle?.manifest_sha256?.string).prefix(16))
        #expect(device?.manifest_sha256_prefix?.string == prefix)
        let text = try await sandbox.run(status)
        #expect(text.out.contains("manifest SHA-256 \(prefix)…") && text.out.contains(key ?? "-"), "\(text.out)")
    }

    @Test("identify blinks for the given time, and discard deletes a partial upload")
    func identifyAndDiscardAnswer() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.create()
        let blinks = try await sandbox.run("identify", "--device", "sim:kitchen?pace=virtual", "--seconds", "5")
        #expect(blinks.exit == 0 && blinks.out.contains("blinks for 5 s"))
        #expect(try await sandbox.run("identify", "--device", "sim:kitchen", "--seconds", "256").exit == 64)
        let device = "sim:kitchen?pace=virtual"
        #expect(try await sandbox.push(device + "&gone-at=0.5").exit == 75)
        let gone = try await sandbox.run("discard", "--device", device, "--format", "json")
        #expect(try gone.exit == 0 && gone.json().device?.state?.string == "idle")
        #expect(try gone.json().discarded?.members == ["manifest_sha256_prefix", "offset"])
        #expect(try (gone.json().discarded?.offset?.number ?? 0) > 0)
        let nothing = try await sandbox.run("discard", "--device", device)
        #expect(
            nothing.out
                == "kitchen (sim:kitchen, GATT OTA profile) had nothing to discard and runs 1.0.0, confirmed.\n",
            "\(nothing.out)"
        )
        #expect(try await sandbox.run("status", "--device", device, "--format", "json").json().transfer == nil)
    }

    @Test("simulate create and remove accept the address sim:NAME of a virtual device")
    func addressesAsNames() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let created = try await sandbox.run(
            "simulate", "create", "sim:hall", "--product", "demo", "--version", "1.0.0", "--trust", "release.pub.pem")
        #expect(created.exit == 0 && created.out.hasPrefix("Created sim:hall: "), "\(created.err)")
        #expect(try await sandbox.run("simulate", "remove", "sim:hall").out == "Removed sim:hall.\n")
        #expect(try await sandbox.run("simulate", "remove", "sim:hall?mtu=23").exit == 64)
    }

    @Test(
        "a command for a virtual device that does not exist exits with 69 and creates nothing",
        arguments: ["status", "confirm", "discard", "restart", "identify"])
    func aDeviceHasToBeThere(verb: String) async throws {
        let sandbox = try Sandbox()
        for device in ["sim:", "sim:nobody"] {
            let run = try await sandbox.run(verb, "--device", device, "--format", "json")
            #expect(run.exit == 69)
            #expect(try run.json().error?.code?.string == "no-such-device")
        }
        #expect(!sandbox.exists("state"), "the command created the state folder")
        #expect(try await sandbox.run(verb).exit == 64)
    }

    @Test("push reports cannot-create when the state folder cannot be created")
    func theStateFolderHasToBePossible() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let run = try await sandbox.run(
            "push", "fw.otaf", "--device", "sim:", "--trust", "release.pub.pem", "--format", "json",
            env: ["OTAFLASH_STATE_DIR": "/dev/null/x"])
        #expect(run.exit == 73)
        #expect(try run.json().error?.code?.string == "cannot-create")
    }

    // MARK: Addresses

    @Test(
        "a malformed device address is refused with 64",
        arguments: [
            "", "demo", "usb:demo", "sim", "sim:a/b", "sim:?", "sim:x?mtu=9", "sim:x?mtu=247&mtu=247",
            "sim:x?colour=red",
        ])
    func anAddressHasToBeOne(address: String) async throws {
        let sandbox = try Sandbox()
        let run = try await sandbox.run("status", "--device", address, "--format", "json")
        // An empty query is allowed, so the device is not found.
        #expect(run.exit == (address == "sim:?" ? 69 : 64), "\(run.out)")
    }

    @Test("an unknown item in a device address is refused with a list of the known items")
    func anUnknownItemNamesTheKnownOnes() async throws {
        let run = try await Sandbox().run("status", "--device", "sim:x?colour=red")
        for item in [
            "mtu", "interval", "per-event", "loss", "drop-at", "gone-at", "gap", "reset-at", "battery", "flash", "pace",
            "seed",
        ] {
            #expect(run.err.contains(item))
        }
    }

    @Test("simulate create --without accepts the abilities of the device's protocol, and refuses the others")
    func withoutAbilities() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        func create(_ name: String, _ options: [String]) async throws -> Run {
            let command = ["simulate", "create", name, "--product", "demo", "--version", "1.0.0"]
            return try await sandbox.run(command + ["--trust", "release.pub.pem"] + options)
        }
        #expect(try await create("a", ["--without", "encodings", "--without", "base"]).exit == 0)
        #expect(try await create("b", ["--protocol", "smp", "--without", "marks"]).exit == 0)
        let ota = try await create("c", ["--without", "marks"])
        #expect(ota.exit == 64 && ota.err.contains("--without marks requires --protocol smp"))
        let smp = try await create("c", ["--protocol", "smp", "--without", "base"])
        #expect(smp.exit == 64 && smp.err.contains("--without base requires --protocol ota"))
    }

    @Test("a relative path in OTAFLASH_STATE_DIR is refused, and the hint is a command with an absolute path")
    func relativeStateFolder() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let create = [
            "simulate", "create", "x", "--product", "demo", "--version", "1.0.0", "--trust", "release.pub.pem",
        ]
        let commands = [
            create, ["simulate", "list"], ["status", "--device", "sim:x"], ["status", "--device", "udp:[::1]"],
        ]
        for command in commands {
            let run = try await sandbox.run(
                command + ["--format", "json"], env: ["OTAFLASH_STATE_DIR": "a state"])
            #expect(run.exit == 64, "\(command): \(run.out)")
            let error = try #require(try run.json().error)
            #expect(error.code?.string == "usage" && error.message?.string?.contains("'a state'") == true)
            #expect(error.hint?.string == "export OTAFLASH_STATE_DIR=\"$PWD/a state\"")
        }
        #expect(!sandbox.exists("a state"))
    }
}
