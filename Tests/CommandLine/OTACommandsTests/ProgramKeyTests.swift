import Glibc
import Subprocess
import Testing

@Suite("Signing with a program of the user") struct ProgramKeyTests {
    /// Returns a sandbox with the program `kms`, whose key is `release.pem`, and the image `fw.bin`.
    private func sandbox(sign: String = "openssl pkeyutl -sign -rawin -inkey release.pem -in /dev/stdin") async throws
        -> Sandbox
    {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try sandbox.write(
            "kms.text",
            Array(
                """
                #!/bin/sh
                case $1 in
                public-key) cat release.pub.pem ;;
                sign) \(sign) ;;
                esac
                """.utf8))
        // A process that another test starts can inherit the descriptor of a file that this process writes. The file is then busy and
        // cannot be executed. So another process writes the program.
        _ = try await sandbox.shell("cp kms.text kms && chmod +x kms")
        return sandbox
    }

    private static let sign = ["sign", "fw.bin", "--product", "demo", "--version", "1.1.0", "-o", "out.otaf"]
    private static let time = ["SOURCE_DATE_EPOCH": "1767225600"]

    @Test("a bundle from a program equals the bundle from the key file", arguments: ["exec:./kms", "exec:kms"])
    func signsABundle(key: String) async throws {
        let sandbox = try await sandbox()
        let run = try await sandbox.run(
            Self.sign + ["--key", key], env: Self.time.merging(["PATH": "/usr/bin:/bin:\(sandbox.folder)"]) { $1 })
        #expect(run.exit == 0, "\(run.err)")
        #expect(try sandbox.read("out.otaf") == sandbox.read("fw.otaf"))
    }

    @Test("an MCUboot image from a program equals the image from the key file")
    func signsAnImage() async throws {
        let sandbox = try await sandbox()
        try sandbox.write("app.bin", [UInt8](repeating: 0, count: 512) + Sandbox.image(20_000))
        for (key, output) in [("exec:./kms", "program.bin"), ("release.pem", "file.bin")] {
            let run = try await sandbox.run(
                "sign", "--as", "mcuboot", "app.bin", "--version", "1.0.0", "--header-size", "0x200", "--key", key,
                "-o",
                output)
            #expect(run.exit == 0, "\(run.err)")
        }
        #expect(try sandbox.read("program.bin") == sandbox.read("file.bin"))
    }

    @Test(
        "each failure of a program has its code and its exit status, and no bundle is written",
        arguments: [
            ("echo refused >&2; exit 3", "signer-failed", 69, "exec:./kms sign ended with exit status 3"),
            ("head -c 63 /dev/zero", "signer-protocol", 76, "printed 63 bytes"),
            ("head -c 64 /dev/zero", "signer-protocol", 76, "not valid for its own public key"),
            (
                "cat >m; echo x >>m; openssl pkeyutl -sign -rawin -inkey release.pem -in m", "signer-protocol", 76,
                "not valid"
            ),
        ] as [(String, String, Int32, String)])
    func fails(command: String, code: String, exit: Int32, message: String) async throws {
        let sandbox = try await sandbox(sign: command)
        let run = try await sandbox.run(Self.sign + ["--key", "exec:./kms", "--format", "json"])
        #expect(run.exit == exit, "\(run.out)")
        #expect(try run.json().error?.code?.string == code)
        #expect(try run.json().error?.message?.string?.contains(message) == true, "\(run.out)")
        #expect(run.err.contains("refused") == command.contains("refused"), "the program's messages are the user's")
        #expect(!sandbox.exists("out.otaf"))
    }

    @Test("a program cannot read the descriptor of a passphrase or a PIN, and gets the variable OTAFLASH_SIGNER")
    func inheritsNoDescriptor() async throws {
        let sandbox = try await sandbox(
            sign: "[ ! -e /proc/$$/fd/3 ] && env | grep -c '^OTAFLASH_SIGNER=' >count; "
                + "openssl pkeyutl -sign -rawin -inkey release.pem -in /dev/stdin")
        let run = try await sandbox.shell(
            "exec \"$0\" \"$@\" --pin-fd 3 3<fw.bin", arguments: Self.sign + ["--key", "exec:./kms"],
            env: ["OTAFLASH_SIGNER": "2"])
        #expect(run.exit == 0, "\(run.err)")
        #expect(try sandbox.read("count") == Array("1\n".utf8))
    }

    /// The program writes the file `started`. It ends by the signal, or only by SIGKILL.
    @Test(
        "a signal to otaflash ends the program and then otaflash, and no bundle is written",
        arguments: [("INT", false), ("TERM", false), ("HUP", false), ("TERM", true)])
    func isInterrupted(signal: String, ignores: Bool) async throws {
        let trap = ignores ? "trap '' \(signal); " : ""
        let sandbox = try await sandbox(sign: "\(trap)echo $$ >started; exec sleep 1000")
        let run = try await sandbox.shell(
            """
            env --default-signal "$0" "$@" &
            while [ ! -s started ] && [ -e /proc/$! ]; do sleep 0.01; done
            kill -s \(signal) $!
            wait $!
            echo "status $?"
            kill -0 $(cat started) 2>/dev/null && echo "the program runs"
            ls
            """, arguments: Self.sign + ["--key", "exec:./kms"])
        let numbers: [String: Int32] = ["INT": SIGINT, "TERM": SIGTERM, "HUP": SIGHUP]
        let number = numbers[signal] ?? 0
        let lines = run.out.split(separator: "\n")
        #expect(lines.first == "status \(128 + number)", "\(run.out)\(run.err)")
        #expect(!lines.contains("the program runs") && !lines.contains("out.otaf"), "\(run.out)")
    }
}
