import Testing

@Suite("The name - for standard input and standard output") struct StandardFileTests {
    @Test(
        "- is standard input and standard output of sign, with the same bytes as files",
        arguments: [[], mcubootOptions])
    func streams(options: [String]) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let epoch = ["SOURCE_DATE_EPOCH": "1767225600"]
        let words =
            ["--key", "release.pem", "--version", "1.2.0"] + (options.isEmpty ? ["--product", "demo"] : options)
        let toFile = try await sandbox.run(["sign", "fw.bin", "-o", "file"] + words, env: epoch)
        #expect(toFile.exit == 0, "\(toFile.err)")
        let script =
            #""$0" sign - -o - "$@" <fw.bin >stream && "$0" verify - --trust release.pub.pem <stream && "$0" inspect - <stream"#
        let run = try await sandbox.shell(script, arguments: words, env: epoch)
        #expect(run.exit == 0 && run.err.contains("Wrote standard output"), "\(run.err)")
        #expect(run.out.contains("standard input is verified"))
        #expect(try sandbox.read("stream") == sandbox.read("file"))
    }

    private static let mcubootOptions = ["--as", "mcuboot", "--header-size", "0x200", "--pad-header"]

    @Test(
        "- is refused where it cannot be, and nothing is written",
        arguments: [
            ["sign", "-", "--key", "release.pem", "--product", "demo", "--version", "1.0.0"],
            [
                "sign", "fw.bin", "--key", "release.pem", "--product", "demo", "--version", "1.0.0", "-o", "-",
                "--format", "json",
            ],
            [
                "sign", "-", "-o", "x", "--key", "release.pem", "--product", "demo", "--version", "1.0.0",
                "--passphrase-fd", "0",
            ],
            ["push", "-", "--device", "sim:"], ["keygen", "-"],
        ])
    func refusedStreams(words: [String]) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let run = try await sandbox.run(words, input: try sandbox.read("fw.bin"))
        #expect(run.exit == 64 && run.err.contains("hint: "), "\(run.err)")
        #expect(!sandbox.exists("-") && !sandbox.exists("-.pem") && !sandbox.exists("-.otaf") && !sandbox.exists("x"))
    }

    @Test("a full disk behind standard output is reported with write-failed")
    func aFullStream() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let run = try await sandbox.shell(
            #""$0" sign fw.bin --key release.pem --product demo --version 1.2.0 -o - >/dev/full"#)
        #expect(run.exit == 74 && run.err.contains("standard output: No space left on device"), "\(run.err)")
    }
}
