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

    /// Runs `otaflash` with non-blocking pipes and writes its output to the files `out` and `err`.
    ///
    /// The output pipes are full, and the input pipe is empty, until the command waits or ends. So a command that does not wait fails.
    private static let slowPipes = """
        exec python3 - "$0" "$@" <<'END'
        import fcntl, os, subprocess, sys, threading
        pipes = {}
        for name in ("in", "out", "err"):
            read, write = os.pipe()
            os.set_blocking(read if name == "in" else write, False)
            pipes[name] = (read, write)
            if name != "in":
                size = fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
                assert os.write(write, b"x" * size) == size
        command = subprocess.Popen(
            sys.argv[1:], stdin=pipes["in"][0], stdout=pipes["out"][1], stderr=pipes["err"][1])
        for descriptor in (pipes["in"][0], pipes["out"][1], pipes["err"][1]):
            os.close(descriptor)
        def wait():
            try: command.wait(0.3)
            except subprocess.TimeoutExpired: pass
        wait()
        try:
            with open(pipes["in"][1], "wb") as stream: stream.write(open("input", "rb").read())
        except BrokenPipeError: pass
        wait()
        def drain(name):
            with open(pipes[name][0], "rb") as stream, open(name, "wb") as file: file.write(stream.read()[4096:])
        threads = [threading.Thread(target=drain, args=[name]) for name in ("out", "err")]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        sys.exit(command.wait())
        END
        """

    @Test("with non-blocking pipes and slow programs at their other ends, sign - -o - writes all bytes and its notes")
    func nonBlockingStreams() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 300_000)
        try sandbox.write("input", try sandbox.read("fw.bin"))
        let run = try await sandbox.shell(
            Self.slowPipes, "sign", "-", "-o", "-", "--key", "release.pem", "--product", "demo", "--version", "1.1.0",
            env: ["SOURCE_DATE_EPOCH": "1767225600"])
        #expect(run.exit == 0, "\(run.err)")
        #expect(try sandbox.read("out") == sandbox.read("fw.otaf"))
        #expect(String(decoding: try sandbox.read("err"), as: UTF8.self).contains("Wrote standard output"))
    }

    @Test(
        "with non-blocking pipes and slow programs at their other ends, a command reads all input and writes its result",
        arguments: [
            (["verify", "-", "--trust", "release.pub.pem"], "fw.otaf", "standard input is verified"),
            (["keygen", "other", "--passphrase-fd", "0"], "passphrase", "other.pem, encrypted"),
        ])
    func nonBlockingInput(words: [String], input: String, result: String) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 300_000)
        try sandbox.write("passphrase", Array("four random words here\n".utf8))
        try sandbox.write("input", try sandbox.read(input))
        let run = try await sandbox.shell(Self.slowPipes, arguments: words)
        #expect(run.exit == 0, "\(run.err)")
        #expect(String(decoding: try sandbox.read("out"), as: UTF8.self).contains(result))
        #expect(try sandbox.read("err").isEmpty)
    }

    @Test(
        "a file that would exceed the maximum file size is reported with its error code and the limit, and no file remains",
        arguments: [
            ("sign fw.bin --key release.pem --product demo --version 1.2.0 -o x", "write-failed"),
            ("sign - --key release.pem --product demo --version 1.2.0 -o x <fw.bin", "write-failed"),
            ("sign fw.bin --key release.pem --product demo --version 1.2.0 -o - >stream", "write-failed"),
            ("keygen x", "write-failed"),
            ("simulate create kitchen --product demo --version 1.0.0 --trust release.pub.pem", "device-io"),
        ])
    func noFileSizeForTheOutput(command: String, code: String) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        // The limit has the unit 512 bytes. A private key is smaller.
        let blocks = command.hasPrefix("keygen") ? 0 : 8
        let run = try await sandbox.shell(
            "{ (ulimit -f \(blocks); \"$0\" --progress json \(command)); echo \"exit $?\" >status; } 2>&1 | cat")
        #expect(String(decoding: try sandbox.read("status"), as: UTF8.self) == "exit 74\n", "\(run.out)")
        #expect(run.out.contains("\"\(code)\"") && run.out.contains("File too large"), "\(run.out)")
        #expect(run.out.contains("ulimit -f"), "\(run.out)")
        #expect(!sandbox.exists("x") && !sandbox.exists("x.pem"))
    }

    @Test("a hint for standard input names no file -, and a command to repeat reads a file")
    func hintsForStandardInput() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        #expect(try await sandbox.run("keygen", "other").exit == 0)
        let folder = try await sandbox.shell(#""$0" verify - --trust release.pub.pem <home"#)
        #expect(folder.exit == 74 && folder.err.contains("cannot read standard input: Is a directory"), "\(folder.err)")
        #expect(folder.err.contains("hint: check the program or the file that standard input comes from"))
        let signed = try await sandbox.shell(
            #""$0" sign - -o x --key release.pem --product demo --version 1.0.0 <home"#)
        #expect(signed.exit == 74 && signed.err.contains("hint: check the program or the file"), "\(signed.err)")
        let other = try await sandbox.run("verify", "-", "--trust", "other.pub.pem", input: sandbox.read("fw.otaf"))
        #expect(other.exit == 77 && other.err.contains("standard input was refused"), "\(other.err)")
        #expect(other.err.contains("otaflash verify - --trust other.pub.pem --trust KEY.pub.pem < FILE\n"))
    }

    @Test("a closed pipe behind standard output is reported with a hint for the program that reads it")
    func aClosedPipe() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let run = try await sandbox.shell(
            #"""
            mkfifo end && exec 4<>end && exec 5>end && exec 4<&- &&
            "$0" sign fw.bin --key release.pem --product demo --version 1.2.0 -o - >&5
            """#)
        #expect(run.exit == 74 && run.err.contains("standard output: Broken pipe"), "\(run.err)")
        #expect(run.err.contains("hint: the program that reads the output has ended") && !run.err.contains("df"))
    }
}
