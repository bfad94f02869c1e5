import OTAFirmware
import OTASigning
import Testing

@Suite("Command inspect") struct InspectTests {
    @Test("inspect shows every field of a bundle")
    func showsEveryFieldOfABundle() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(
            "--hardware", "1..3,7", "--counter", "5", "--requires", "1.0.0", "--minimum-battery", "30", "--source",
            "build 12")
        let run = try await sandbox.run("inspect", "fw.otaf", "--trust", "release.pub.pem")
        #expect(run.exit == 0)
        for word in [
            "demo", "1.1.0", "1..3,7", "5", "1.0.0", "30 %", "build 12", "2026-01-01T00:00:00Z", "raw, 20000 bytes",
        ] {
            #expect(run.out.contains(word), "\(word)")
        }
        #expect(run.out.contains("Verified against release.pub.pem"))
    }

    @Test("inspect --base reports the bytes of the compressed image and of the delta, for bundles and images")
    func encodings() async throws {
        let sandbox = try Sandbox()
        let base = Sandbox.sample("acme-gateway-1.0.0.bin")
        let digest = try await sandbox.openssl("dgst", "-sha256", "-r", base).prefix(64)
        try await sandbox.run("keygen", "release")
        for version in ["1.0.0", "1.0.1"] {
            let run = try await sandbox.run(
                "sign", Sandbox.sample("acme-gateway-\(version).bin"), "--key", "release.pem", "--product",
                "acme-gateway",
                "--version", version, "-o", "\(version).otaf")
            #expect(run.exit == 0)
        }
        for (file, base) in [("1.0.1.otaf", "1.0.0.otaf"), (Sandbox.sample("acme-gateway-1.0.1.bin"), base)] {
            let json = try await sandbox.run("inspect", file, "--base", base, "--format", "json").json()
            let (compressed, delta) = (json.encodings?[0], json.encodings?[1])
            #expect(
                compressed?.members == ["bytes", "encoding"] && delta?.members == ["base_sha256", "bytes", "encoding"])
            #expect(compressed?.encoding?.string == "lzma2" && delta?.encoding?.string == "lzma2")
            #expect(delta?.base_sha256?.string == String(decoding: digest, as: UTF8.self))
            #expect((compressed?.bytes?.number).map { (40_000...52_000).contains($0) } == true)
            #expect((delta?.bytes?.number).map { (1000...2486).contains($0) } == true)
            let text = try await sandbox.run("inspect", file, "--base", base)
            #expect(text.out.contains("Compressed") && text.out.contains("Delta from \(base)"))
        }
        let without = try await sandbox.run("inspect", "1.0.1.otaf", "--format", "json").json()
        #expect(without.encodings == nil)
    }

    @Test("inspect --base refuses a base that cannot be read, and a file without an image")
    func badBases() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try sandbox.write("sparse.bin", [1])
        let made = try await sandbox.shell(
            "truncate -s 4G sparse.bin; printf x >large.bin; truncate -s 17M large.bin; touch empty.bin; mkdir folder"
        )
        #expect(made.exit == 0)
        for (file, base, exit, code) in [
            ("fw.otaf", "sparse.bin", 65, "file-too-large"), ("fw.otaf", "large.bin", 65, "file-too-large"),
            ("sparse.bin", "fw.otaf", 65, "file-too-large"), ("fw.otaf", "folder", 66, "not-a-file"),
            ("fw.otaf", "empty.bin", 65, "empty-file"), ("fw.otaf", "missing.otaf", 66, "no-such-file"),
            ("fw.otaf", "release.pub.pem", 65, "not-an-image"),
            ("release.pub.pem", "fw.otaf", 64, "usage"),
        ] as [(String, String, Int32, String)] {
            let run = try await sandbox.run("inspect", file, "--base", base, "--format", "json")
            #expect(run.exit == exit)
            #expect(try run.json().error?.code?.string == code)
        }
    }

    @Test("inspect --base refuses a bundle whose image does not match its manifest, and names a file that is too large")
    func damagedBundle() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let made = try await sandbox.shell(
            "cp fw.otaf bad.otaf; printf 'xx' | dd of=bad.otaf bs=1 seek=9000 conv=notrunc; "
                + "printf x >large.bin; truncate -s 17M large.bin")
        #expect(made.exit == 0)
        for (file, base, code, message, hint) in [
            (
                "fw.otaf", "bad.otaf", "digest-mismatch", "the base cannot be used: the image of bad.otaf is damaged",
                "fetch it again"
            ),
            ("bad.otaf", "fw.otaf", "digest-mismatch", "the image of bad.otaf is damaged", "fetch it again"),
            ("fw.otaf", "large.bin", "file-too-large", "the base large.bin has 17825792 bytes", "push does not use it"),
            ("large.bin", "fw.otaf", "file-too-large", "the image has 17825792 bytes", "push sends this image plain"),
        ] {
            let run = try await sandbox.run("inspect", file, "--base", base, "--format", "json")
            #expect(try run.exit == 65 && run.json().error?.code?.string == code, "\(file) \(base) \(run.err)")
            #expect(run.err.contains(message) && run.err.contains(hint), "\(run.err)")
        }
    }

    @Test("inspect --base reads a base from a pipe, as in --base <(command)")
    func baseFromPipe() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        _ = try await sandbox.shell("mkfifo pipe; (cat fw.otaf >pipe) >/dev/null 2>&1 &")
        let run = try await sandbox.run("inspect", "fw.otaf", "--base", "pipe", "--format", "json")
        let bytes = try run.json().encodings?[1]?.bytes?.number
        #expect(run.exit == 0 && bytes.map { $0 < 200 } == true, "\(run.err)")
    }

    @Test("inspect --base notes that a base is for another product")
    func otherProduct() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let signed = try await sandbox.run(
            "sign", "fw.bin", "--key", "release.pem", "--product", "oven", "--version", "1.0.0", "-o", "oven.otaf")
        #expect(signed.exit == 0, "\(signed.err)")
        let run = try await sandbox.run("inspect", "fw.otaf", "--base", "oven.otaf")
        #expect(run.exit == 0 && run.err.contains("the base oven.otaf is for the product oven, the bundle is for demo"))
        #expect(try await !sandbox.run("inspect", "fw.otaf", "--base", "fw.otaf").err.contains("product"))
        #expect(try await !sandbox.run("inspect", "fw.otaf", "--base", "fw.bin").err.contains("product"))
    }

    /// The public ML-DSA key has no private key, so this test needs no libcrypto with ML-DSA.
    @Test("a bundle with only one signature of a pair is refused, and inspect names the missing signature")
    func onlyOneOfAPair() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let other = try PublicKey(algorithm: .mlDSA65, bytes: [UInt8](repeating: 1, count: 1952))
        let own = try PublicKey(pem: SecretBytes(copying: sandbox.read("release.pub.pem")))
        try sandbox.write("other.pub.pem", other.pem().withUnsafeBytes { Array($0) })
        try sandbox.write("release.pub.pem.scope", Array("with = \(other.id)\n".utf8))
        try sandbox.write("other.pub.pem.scope", Array("with = \(own.id)\n".utf8))
        let trust = ["--trust", "release.pub.pem", "--trust", "other.pub.pem", "--format", "json"]
        let verified = try await sandbox.run(["verify", "fw.otaf"] + trust)
        #expect(try verified.exit == 77 && verified.json().error?.code?.string == "partner-missing", "\(verified.out)")
        let inspected = try await sandbox.run(["inspect", "fw.otaf"] + trust)
        let signature = try inspected.json().bundle?.signatures?[0]
        #expect(
            signature?.missing_partner?.string == "\(other.id)" && signature?.valid?.bool == true, "\(inspected.out)")
    }

    @Test("inspect reports that a bundle is not verified, with the reason")
    func saysThatItOnlyRead() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let noTrust = try await sandbox.run("inspect", "fw.otaf")
        #expect(noTrust.exit == 0 && noTrust.out.contains("Not verified: no key is trusted"))
        let json = try await sandbox.run("inspect", "fw.otaf", "--format", "json").json()
        #expect(json.verified?.bool == false && json.bundle?.signatures?[0]?.members == ["algorithm", "key_id"])

        try await sandbox.run("keygen", "other")
        let other = try await sandbox.run("inspect", "fw.otaf", "--trust", "other.pub.pem", "--format", "json").json()
        #expect(other.verified?.bool == false && other.reason?.string?.isEmpty == false)
        #expect(other.bundle?.signatures?[0]?.trusted?.bool == false)
        #expect(other.bundle?.signatures?[0]?.members == ["algorithm", "key_id", "trusted"])

        var bundle = try sandbox.read("fw.otaf")
        bundle[bundle.count - 1] ^= 1
        try sandbox.write("changed.otaf", bundle)
        let changed = try await sandbox.run("inspect", "changed.otaf", "--trust", "release.pub.pem")
        #expect(changed.exit == 0 && changed.out.contains("Not verified: the digest of the image does not match"))
    }

    @Test(
        "inspect shows format and version of an image without a bundle",
        arguments: [
            ("acme-thermostat-1.1.0.bin", "esp-idf", "1.1.0"), ("acme-beacon-1.1.0.mcuboot.bin", "mcuboot", "1.1.0"),
            ("acme-beacon-1.1.0.bin", "raw", nil), ("acme-beacon-1.1.0.hex", "raw", nil),
        ])
    func showsABareImage(name: String, format: String, version: String?) async throws {
        let sandbox = try Sandbox()
        let json = try await sandbox.run("inspect", Sandbox.sample(name), "--format", "json").json()
        let image = try #require(json.image)
        #expect(image.format?.string == format && image.version?.string == version && !json.holdsNull)
        let text = try await sandbox.run("inspect", Sandbox.sample(name))
        #expect(text.out.contains("Not verified"))
    }

    @Test("a PEM block inside an image or bundle does not make the file a key")
    func anImageWithACertificateInItIsNoKey() async throws {
        let sandbox = try Sandbox()
        let certificate = Array("\n-----BEGIN CERTIFICATE-----\n".utf8)
        for bytes in [
            certificate + [0, 1, 2], certificate + [1, 2], [0x7F] + certificate, [0x20] + certificate[1...] + [1, 2],
        ] {
            try sandbox.write("fw.bin", bytes)
            let run = try await sandbox.run("inspect", "fw.bin", "--format", "json")
            #expect(try run.json().image?.format?.string == "raw", "\(run.out)")
        }
        // A bundle begins with its own magic.
        try await sandbox.run("keygen", "release")
        try await sandbox.run(
            "sign", "fw.bin", "--key", "release.pem", "--product", "demo", "--version", "1.0.0", "-o", "fw.otaf")
        let bundle = try await sandbox.run("inspect", "fw.otaf", "--format", "json").json().bundle
        #expect(bundle?.product?.string == "demo")
        // openssl writes text before the PEM block of a key. The file is still a key.
        try sandbox.write("key", Array("Key: release\r\n\t1\r\n".utf8) + sandbox.read("release.pub.pem"))
        #expect(try await sandbox.run("inspect", "key", "--format", "json").json().key?.kind?.string == "public")
    }

    @Test("inspect prints the same SHA-256 of an image as sha256sum")
    func hashesAnImage() async throws {
        let sandbox = try Sandbox()
        try sandbox.write("fw.bin", [1, 2, 3])
        let image = try await sandbox.run("inspect", "fw.bin", "--format", "json").json().image
        #expect(image?.sha256?.string == "039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb81")
    }

    @Test("inspect shows the key ID and the kind of a key, and refuses an encrypted private key")
    func showsAKeysID() async throws {
        let sandbox = try Sandbox()
        let made = try await sandbox.run("keygen", "release", "--format", "json").json().key?.key_id?.string
        for (file, kind) in [("release.pem", "private"), ("release.pub.pem", "public")] {
            let key = try await sandbox.run("inspect", file, "--format", "json").json().key
            #expect(key?.key_id?.string == made && key?.kind?.string == kind && key?.demo?.bool == false)
        }
        try await sandbox.run("keygen", "secret", "--passphrase-env", "P", env: ["P": "correct horse"])
        let encrypted = try await sandbox.run("inspect", "secret.pem")
        #expect(encrypted.exit == 77 && encrypted.err.contains("inspect the public key"))
        try sandbox.takeDemoKey()
        #expect(try await sandbox.run("inspect", "demo.pub.pem", "--format", "json").json().key?.demo?.bool == true)
    }

    /// A C program that writes the arrays of `inspect --c-array` and, if it has them, those of zephyr/keys.py.
    private static let printer = """
        #include <stdint.h>
        #include <stdio.h>
        #include HEADER
        int main(void) {
        #ifdef OF_MODULE
            fwrite(public_keys, 1, sizeof public_keys, stdout), fwrite(key_ids, 1, sizeof key_ids, stdout);
        #else
            fwrite(public_key, 1, sizeof public_key, stdout), fwrite(key_id, 1, sizeof key_id, stdout);
        #endif
        }

        """

    @Test("inspect --c-array prints the bytes of the key that openssl and the script of the firmware modules print")
    func cArray() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        let header = try await sandbox.run("inspect", "release.pub.pem", "--c-array")
        #expect(header.exit == 0 && header.err.isEmpty)
        try sandbox.write("key.h", Array(header.out.utf8))
        try sandbox.write("print.c", Array(Self.printer.utf8))
        let compile = "gcc -std=c99 -pedantic -Wall -Wextra -Werror print.c -o print"
        let ours = try await sandbox.shell("\(compile) -DHEADER='\"key.h\"' && ./print >ours")
        #expect(ours.exit == 0, "\(ours.err)")
        let script = Sandbox.repository("zephyr/keys.py")
        let theirs = try await sandbox.shell(
            "python3 '\(script)' keys.h release.pub.pem && \(compile) -DOF_MODULE -DHEADER='\"keys.h\"' && ./print >theirs"
        )
        #expect(theirs.exit == 0, "\(theirs.err)")
        let key = try await sandbox.openssl("pkey", "-pubin", "-in", "release.pub.pem", "-outform", "DER").suffix(32)
        #expect(try sandbox.read("ours").prefix(32).elementsEqual(key))
        #expect(try sandbox.read("ours") == sandbox.read("theirs"))
        let id =
            try await sandbox.run("inspect", "release.pub.pem", "--format", "json").json().key?.key_id?.string ?? ""
        #expect(header.out.contains("Ed25519, key id \(id)."))
        let ofPrivate = try await sandbox.run("inspect", "release.pem", "--c-array")
        #expect(ofPrivate.out == header.out)
    }

    @Test("inspect --c-array prints all bytes of an ML-DSA key")
    func cArrayOfMLDSA() async throws {
        let sandbox = try Sandbox()
        let bytes = Sandbox.image(1952)
        let info = try #require(Hex.decode("308207b2300b0609608648016503040312038207a100")) + bytes
        try sandbox.write("key.der", info)
        let convert =
            "{ echo '-----BEGIN PUBLIC KEY-----'; base64 -w 64 key.der; echo '-----END PUBLIC KEY-----'; } >key.pub.pem"
        #expect(try await sandbox.shell(convert).exit == 0)
        let run = try await sandbox.run("inspect", "key.pub.pem", "--c-array")
        let text = run.out.split(separator: "\n").filter { $0.hasPrefix("    0x") }.joined()
        let printed = text.split(separator: ",").compactMap { UInt8($0.drop { $0 == " " }.dropFirst(2), radix: 16) }
        #expect(printed.prefix(1952).elementsEqual(bytes) && run.out.contains("public_key[1952]"), "\(run.err)")
    }

    @Test("inspect --c-array refuses a file that is no key, a key for images only, and --format json")
    func noCArray() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "ec.pem")
        for (words, text) in [
            (["fw.otaf"], "is another file"), (["ec.pem"], "a key for ECDSA P-256"),
            (["release.pub.pem", "--format", "json"], "use one of them"),
        ] {
            let run = try await sandbox.run(["inspect"] + words + ["--c-array"])
            #expect(run.exit == 64 && (run.err + run.out).contains(text), "\(run.err)")
        }
    }
}
