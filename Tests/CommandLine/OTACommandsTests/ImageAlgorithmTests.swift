import FoundationEssentials
import Glibc
import OTATestSupport
import Testing

/// MCUboot images with ECDSA and RSA signatures, and files of protocols that otaflash does not support.
@Suite("Algorithms of MCUboot images, and foreign update files") struct ImageAlgorithmTests {
    private static let algorithms = [
        ("EC", "ec_paramgen_curve:P-256", "ECDSA P-256", "ECDSASIG"),
        ("RSA", "rsa_keygen_bits:2048", "RSA-2048", "RSA2048"), ("RSA", "rsa_keygen_bits:3072", "RSA-3072", "RSA3072"),
    ]
    private static let device = "sim:kitchen?pace=virtual"

    /// Creates the key pair `NAME.pem` and `NAME.pub.pem`.
    private func makeKey(_ sandbox: Sandbox, _ name: String, _ algorithm: String, _ option: String) async throws {
        try await sandbox.openssl(
            "genpkey", "-quiet", "-algorithm", algorithm, "-pkeyopt", option, "-out", "\(name).pem")
        try await sandbox.openssl("pkey", "-in", "\(name).pem", "-pubout", "-out", "\(name).pub.pem")
        chmod(sandbox.path("\(name).pem"), 0o600)
    }

    private func code(_ run: Run) throws -> String? { try run.json().error?.code?.string }

    @Test("sign, inspect, verify and push work with ECDSA and RSA keys", arguments: algorithms)
    func aWholeUpdate(algorithm: String, option: String, name: String, tlv: String) async throws {
        let sandbox = try Sandbox()
        try await makeKey(sandbox, "release", algorithm, option)
        try await makeKey(sandbox, "other", algorithm, option)
        try await sandbox.mcuboot(version: "1.1.0")
        let key = try await sandbox.run("inspect", "release.pub.pem", "--format", "json").json().key
        #expect(key?.algorithm?.string == name && key?.kind?.string == "public")
        let json = try await sandbox.run(
            "inspect", "fw.signed.bin", "--trust", "release.pub.pem", "--format", "json"
        ).json()
        let signature = json.image?.mcuboot?.signature
        #expect(json.verified?.bool == true && signature?.algorithm?.string == tlv && signature?.valid?.bool == true)
        #expect(
            signature?.key_hash?.string == key?.key_hash?.string && signature?.key_id?.string == key?.key_id?.string)
        let verified = try await sandbox.run("verify", "fw.signed.bin", "--trust", "release.pub.pem")
        #expect(verified.exit == 0 && verified.out.contains("Checked: \(tlv) signature over that digest: valid"))
        let refused = try await sandbox.run("verify", "fw.signed.bin", "--trust", "other.pub.pem", "--format", "json")
        #expect(try refused.exit == 77 && code(refused) == "untrusted-key")
        let create = ["simulate", "create", "lamp", "--product", "demo", "--version", "1.0.0"]
        let profile = try await sandbox.run(create + ["--trust", "release.pub.pem", "--format", "json"])
        #expect(try profile.exit == 77 && code(profile) == "no-trusted-key" && profile.err.contains("--protocol smp"))
        // The virtual device stores the key and verifies the image as MCUboot does.
        try await sandbox.create(options: ["--protocol", "smp"])
        let pushed = try await sandbox.push(Self.device, image: "fw.signed.bin")
        #expect(pushed.exit == 0, "\(pushed.err)")
        #expect(try pushed.json().outcome?.string == "confirmed")
        #expect(try pushed.json().image?.authorization?.string == "signature")
        try await sandbox.mcuboot(version: "1.2.0", key: "other", as: "other.bin")
        let foreign = try await sandbox.push(Self.device, image: "other.bin")
        #expect(try foreign.exit == 77 && code(foreign) == "untrusted-key")
        // The device refuses the image too, if the user trusts its key.
        let trusted = try await sandbox.push(Self.device, image: "other.bin", "--trust", "other.pub.pem")
        #expect(try trusted.exit == 78 && code(trusted) == "rolled-back", "\(trusted.out)")
    }

    @Test("sign --sha 512 signs the SHA-512 with an Ed25519 key")
    func aDigestOf512Bits() async throws {
        let sandbox = try Sandbox()
        try await sandbox.mcuboot(options: ["--sha", "512"])
        let run = try await sandbox.run("verify", "fw.signed.bin", "--trust", "release.pub.pem")
        #expect(run.exit == 0 && run.out.contains("SHA512 of header, body and protected TLVs: valid"), "\(run.err)")
    }

    @Test("an ECDSA or RSA key is refused for a bundle, and the message names its algorithm", arguments: algorithms)
    func bundlesNeedEd25519(algorithm: String, option: String, name: String, tlv: String) async throws {
        let sandbox = try Sandbox()
        try await makeKey(sandbox, "image", algorithm, option)
        try sandbox.write("fw.bin", Sandbox.image(100))
        let run = try await sandbox.run(
            "sign", "fw.bin", "--key", "image.pem", "--product", "demo", "--version", "1.0.0", "--format", "json")
        #expect(try run.exit == 65 && code(run) == "wrong-algorithm" && !sandbox.exists("fw.bin.otaf"))
        #expect(
            run.err.contains("the key is for \(name); a bundle requires Ed25519") && run.err.contains("--as mcuboot"))
    }

    @Test(
        "sign refuses digests and schemes that the key does not support",
        arguments: [
            ("rsa", ["--pure"], 65, "remove --pure"), ("rsa", ["--sha", "512"], 65, "remove --sha 512"),
            ("rsa", ["--sha", "384"], 64, "ECDSA P-384"), ("ed", ["--sha", "256", "--pure"], 64, "SHA-512"),
            ("ed", ["--sha", "1"], 64, "auto, 256 or 512"), ("p384", [], 65, "ECDSA P-384"),
            ("rsa1024", [], 65, "RSA-1024"), ("rsa4096", [], 65, "RSA-4096"),
        ] as [(String, [String], Int32, String)])
    func combinationsThatAreRefused(key: String, options: [String], exit: Int32, message: String) async throws {
        let sandbox = try Sandbox()
        switch key {
        case "ed": try await sandbox.run("keygen", "ed")
        case "p384": try await makeKey(sandbox, key, "EC", "ec_paramgen_curve:P-384")
        default:
            try await makeKey(sandbox, key, "RSA", "rsa_keygen_bits:\(key == "rsa" ? "2048" : "\(key.dropFirst(3))")")
        }
        try sandbox.write("fw.bin", Sandbox.image(100))
        let run = try await sandbox.run(
            [
                "sign", "--as", "mcuboot", "fw.bin", "--key", "\(key).pem", "--version", "1.0.0", "--header-size", "32",
                "--pad-header",
            ] + options)
        #expect(run.exit == exit && run.err.contains(message) && run.err.contains("hint: "), "\(run.err)")
        #expect(!sandbox.exists("fw.signed.bin"))
    }

    @Test("a private key or a key of another kind after --trust is refused with the command to type")
    func otherTrustedKeys() async throws {
        let sandbox = try Sandbox()
        try await sandbox.mcuboot()
        try await makeKey(sandbox, "rsa", "RSA", "rsa_keygen_bits:2048")
        try await makeKey(sandbox, "p384", "EC", "ec_paramgen_curve:P-384")
        try sandbox.write("alone.pem", sandbox.read("rsa.pem"))
        for (trust, code, message) in [
            ("rsa.pem", "not-a-key", "give the public key of the same pair: --trust rsa.pub.pem"),
            ("alone.pem", "not-a-key", "openssl pkey -in alone.pem -pubout"),
            ("p384.pub.pem", "wrong-algorithm", "ECDSA P-384"),
        ] {
            let run = try await sandbox.run("verify", "fw.signed.bin", "--trust", trust, "--format", "json")
            #expect(try run.exit == 65 && self.code(run) == code && run.err.contains(message), "\(run.err)")
        }
    }

    /// The image is from the corpus of the fuzzer. imgtool 2.5.0 signed it with `ecdsa-p384`.
    @Test("an ECDSA P-384 image is refused by name, and --unverified-image accepts its signature")
    func anImageWithP384() async throws {
        let sandbox = try Sandbox()
        try await sandbox.mcuboot()
        let path = Sandbox.repository("Fuzz/Corpus/images/mcuboot-ecdsa-p384")
        // The first two bytes are for the fuzz target.
        try sandbox.write("p384.bin", Array(Data(contentsOf: URL(filePath: path)).dropFirst(2)))
        let run = try await sandbox.run("verify", "p384.bin", "--trust", "release.pub.pem", "--format", "json")
        #expect(try run.exit == 77 && code(run) == "unsupported-signature" && run.err.contains("ECDSA P-384"))
        let shown = try await sandbox.run("inspect", "p384.bin", "--format", "json").json()
        #expect(shown.verified?.bool == false && shown.reason?.string?.contains("ECDSA P-384") == true)
        try await sandbox.create(options: ["--protocol", "smp"])
        let push = try await sandbox.push(Self.device, image: "p384.bin")
        #expect(try push.exit == 77 && code(push) == "unsupported-signature" && push.err.contains("--unverified-image"))
        let sent = try await sandbox.push(Self.device, image: "p384.bin", "--unverified-image", "--upload-only")
        // The consent covers the signature. The virtual device lists only images with a SHA-256.
        #expect(sent.err.contains("ECDSA P-384") && sent.err.contains("no SHA-256 digest"), "\(sent.err)")
        #expect(try code(sent) == "wrong-image-format")
        #expect(
            sent.err.contains(
                "hint: sign the image again, with the options of its build and --sha 256: otaflash sign IMAGE"))
    }

    /// The public key of `root-ec-p256.pem` in the repository of MCUboot.
    private static let sampleKey = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEKstAPOj+7VukSZWhqR2u6Nu+GTfN
        FPsvJFc35ZU5iNmUudZa69fN1TCK1v5IskpqgQ7l8H2LaDTMOmr8U476wQ==
        -----END PUBLIC KEY-----

        """

    @Test("a trusted sample key of MCUboot gives a warning, because its private key is public")
    func theSampleKeyOfMCUboot() async throws {
        let sandbox = try Sandbox()
        try await sandbox.mcuboot()
        try sandbox.write("root-ec-p256.pub.pem", Array(Self.sampleKey.utf8))
        let key = try await sandbox.run("inspect", "root-ec-p256.pub.pem", "--format", "json").json().key
        // The bootloader of a Zephyr sample prints this hash.
        #expect(key?.key_hash?.string == "e30466f6b8470c1f29070b17f1e2d3e94d445e3f608087fdc711e4382bb538b6")
        let run = try await sandbox.run(
            "verify", "fw.signed.bin", "--trust", "release.pub.pem", "--trust", "root-ec-p256.pub.pem")
        #expect(run.exit == 0 && run.err.contains("e30466f6b8470c1f is a sample key of MCUboot"), "\(run.err)")
        let own = try await sandbox.run("verify", "fw.signed.bin", "--trust", "release.pub.pem")
        #expect(own.exit == 0 && !own.err.contains("sample key"), "\(own.err)")
    }

    // MARK: Files of other protocols

    @Test("a UF2 file is refused by name, with the way to install it")
    func uf2() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        let block: [UInt8] = [0x55, 0x46, 0x32, 0x0A, 0x57, 0x51, 0x5D, 0x9E] + [UInt8](repeating: 0, count: 504)
        try sandbox.write("fw.uf2", block)
        for (command, options) in [
            ("verify", ["--trust", "release.pub.pem"]), ("inspect", []),
            ("push", ["--device", "sim:", "--trust", "release.pub.pem"]),
            ("sign", ["--key", "release.pem", "--product", "demo", "--version", "1.0.0"]),
        ] {
            let run = try await sandbox.run([command, "fw.uf2", "--format", "json"] + options)
            #expect(try run.exit == 65 && code(run) == "not-an-image", "\(command): \(run.err)")
            #expect(run.err.contains("UF2") && run.err.contains("USB drive"), "\(command): \(run.err)")
        }
    }

    @Test("an unsigned ESP-IDF image is refused by name, with the command that makes a bundle of it")
    func espressif() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        let image = Sandbox.sample("acme-thermostat-1.1.0.bin")
        for (command, options) in [("verify", []), ("push", ["--device", "sim:"])] as [(String, [String])] {
            let run = try await sandbox.run(
                [command, image, "--trust", "release.pub.pem", "--format", "json"] + options)
            #expect(try run.exit == 65 && code(run) == "wrong-image-format", "\(command): \(run.err)")
            #expect(run.err.contains("an unsigned ESP-IDF image (magic e9) of acme-thermostat 1.1.0"), "\(run.err)")
            #expect(run.err.contains("otaflash sign") && run.err.contains("Espressif's BLE OTA"), "\(run.err)")
        }
        // The first byte alone does not make an ESP-IDF image.
        try sandbox.write("other.bin", [0xE9, 0x00] + [UInt8](repeating: 0, count: 100))
        let run = try await sandbox.run("verify", "other.bin", "--trust", "release.pub.pem", "--format", "json")
        #expect(try code(run) == "bad-magic")
    }
}
