import Glibc
import SystemPackage
import Testing

@Suite("Files that are not firmware, as arguments") struct ForeignInputTests {
    /// Python writes one file for each type.
    private static let script = """
        import base64, bz2, gzip, io, lzma, os, sqlite3, tarfile, zipfile
        data = bytes(i * 37 % 251 for i in range(3000))
        def write(name, contents): open(name, "wb").write(contents)
        write("app.gz", gzip.compress(data)); write("app.bz2", bz2.compress(data)); write("app.xz", lzma.compress(data))
        with tarfile.open("app.tar", "w") as archive: archive.addfile(tarfile.TarInfo("a"), io.BytesIO(b""))
        base = sqlite3.connect("app.db"); base.execute("create table t (a)"); base.commit(); base.close()
        write("app.txt", b"text\\n"); write("app.b64", base64.encodebytes(data)); write("app.00", bytes(3000)); write("app.ff", b"\\xff" * 3000)
        write("app.be", bytes.fromhex("96f3b83d") + bytes(28) + data); write("app.padded", b"\\xff" * 4096 + gzip.compress(data))
        """
    private static let files = [
        "app.gz", "app.bz2", "app.xz", "app.tar", "app.db", "app.txt", "app.b64", "app.00", "app.ff", "app.be",
        "app.padded",
    ]

    @Test("sign, verify, inspect and push refuse a file that is not firmware with 65, and --raw signs it")
    func refused() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try sandbox.write("make.py", Array(Self.script.utf8))
        #expect(try await sandbox.shell("python3 make.py && exec \"$0\" --version").exit == 0)
        for file in Self.files {
            let sign = ["sign", file, "--key", "release.pem", "--product", "demo", "--version", "1.0.0"]
            let mcuboot = [
                "sign", file, "--as", "mcuboot", "--key", "release.pem", "--version", "1.0.0", "--header-size", "0x20",
                "--pad-header",
            ]
            for command in [sign, mcuboot, ["verify", file, "--trust", "release.pub.pem"], ["inspect", file]] {
                let run = try await sandbox.run(command)
                #expect(run.exit == 65 && run.err.contains("expected a firmware image"), "\(command): \(run.err)")
                #expect(run.err.contains("add --raw") == (command[0] == "sign"), "\(command): \(run.err)")
                #expect(command[0] == "sign" || !run.err.contains("otaflash sign"), "\(command): \(run.err)")
            }
            let raw = try await sandbox.run(sign + ["--raw"])
            #expect(raw.exit == 0, "\(file): \(raw.err)")
            #expect(try sandbox.read("\(file).otaf").suffix(5) == sandbox.read(file).suffix(5))
            #expect(try await sandbox.run(mcuboot + ["--raw", "-o", "\(file).signed"]).exit == 0)
        }
    }

    @Test("sign names --raw for an image that begins like another format, and --raw signs it")
    func beginsLikeAnotherFormat() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let fixed: [UInt8] = [0xE9, 0xFF, 0, 0]
        try sandbox.write("app.bin", fixed + (0..<3000).map { UInt8(truncatingIfNeeded: $0 &* $0) })
        let sign = ["sign", "app.bin", "--key", "release.pem", "--product", "demo", "--version", "1.0.0"]
        let refused = try await sandbox.run(sign)
        #expect(refused.exit == 65 && refused.err.contains("[bad-image-header]"), "\(refused.err)")
        let hint = "if the image has another format, and the device requires exactly these bytes, add --raw"
        #expect(refused.err.contains(hint), "\(refused.err)")
        #expect(try await sandbox.run("inspect", "app.bin").err.contains("--raw") == false)
        #expect(try await sandbox.run(sign + ["--raw"]).exit == 0)
    }

    @Test("S-records become the same bundle and the same MCUboot image as the binary, and verify and inspect read them")
    func sRecords() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let names = ("fw.bin", "fw.s19")
        let convert =
            "objcopy -I binary -O srec --change-addresses 0x8000 \(names.0) \(names.1) && exec \"$0\" --version"
        #expect(try await sandbox.shell(convert).exit == 0)
        for (file, name) in [(names.0, "a"), (names.1, "b")] {
            let sign = ["sign", file, "--key", "release.pem", "--version", "1.0.0"]
            let bundle = try await sandbox.run(
                sign + ["--product", "demo", "-o", "\(name).otaf"], env: ["SOURCE_DATE_EPOCH": "1767225600"])
            #expect(bundle.exit == 0, "\(bundle.err)")
            let image = try await sandbox.run(
                sign + ["--as", "mcuboot", "--header-size", "0x20", "--pad-header", "-o", "\(name).bin"])
            #expect(image.exit == 0, "\(image.err)")
        }
        #expect(try sandbox.read("a.otaf") == sandbox.read("b.otaf"))
        #expect(try sandbox.read("a.bin") == sandbox.read("b.bin"))
        #expect(try await sandbox.shell("objcopy -I binary -O srec b.bin b.s37 && exec \"$0\" --version").exit == 0)
        #expect(try await sandbox.run("verify", "b.s37", "--trust", "release.pub.pem").exit == 0)
        let inspect = try await sandbox.run("inspect", "b.s37", "--trust", "release.pub.pem")
        #expect(inspect.exit == 0 && inspect.out.contains("S-record") && inspect.out.contains("Verified against"))
    }

    @Test("sign notes the gaps of a HEX text if they are half of the image, and names the ranges")
    func gaps() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        // A byte at 0 and a byte at 0x1000.
        try sandbox.write("gap.hex", Array(":0100000001FE\n:0110000002ED\n:00000001FF\n".utf8))
        let sign = ["sign", "gap.hex", "--key", "release.pem", "--version", "1.0.0"]
        for options in [
            ["--product", "demo"], ["--as", "mcuboot", "--header-size", "0x20", "--pad-header"],
            ["--product", "demo", "--to-sign", "m"],
        ] {
            let run = try await sandbox.run(
                options.contains("m") ? ["sign", "gap.hex", "--version", "1.0.0"] + options : sign + options)
            #expect(run.exit == 0, "\(run.err)")
            #expect(run.err.contains("note: 4095 of the 4097 bytes of the image are gaps"), "\(run.err)")
        }
        #expect(try await sandbox.run("inspect", "gap.hex").out.contains("4095 of the 4097 bytes"))
    }
}
