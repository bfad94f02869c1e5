import Glibc
import OTATestSupport
import SystemPackage
import Testing

/// Searches the memory, arguments and environment of a process for passphrases and private keys.
///
/// The process has used the secrets and is about to print its result. It must have wiped them.
@Suite("Passphrases and private keys in memory") struct SecretsTests {
    private static let isRoot = geteuid() == 0
    private static let whyRoot: Comment = "only root can read the memory of a process that is not dumpable"

    private static let script = FilePath(#filePath).removingLastComponent()
        .appending("Support").appending("search_memory.py")

    /// Returns the count of each secret, and last the count of the marker's name, which is an argument.
    private func search(
        _ sandbox: Sandbox, marker: String, secrets: [String], _ command: [String], env: [String: String] = [:]
    ) async throws -> [Int] {
        let search = try await Command.run(
            "/usr/bin/python3",
            [Self.script.string, marker] + secrets + ["--", Sandbox.binary.string] + command,
            environment: sandbox.environment(env), in: sandbox.folder)
        let found = search.outputText.split(whereSeparator: \.isWhitespace).compactMap { Int($0) }
        try #require(found.count == secrets.count + 1, "\(search.errorText)")
        return found
    }

    private func sandbox() throws -> Sandbox {
        let sandbox = try Sandbox()
        try sandbox.write("secret", Array("correct horse 8841\n".utf8))
        try sandbox.write("image", Sandbox.image(20_000))
        return sandbox
    }

    @Test("keygen wipes the passphrase from its memory after use", .enabled(if: isRoot, whyRoot))
    func keygenLeavesNoPassphrase() async throws {
        let found = try await search(
            sandbox(), marker: "release.pub.pem", secrets: ["secret"],
            ["keygen", "release", "--encrypt", "--passphrase-fd", "3"])
        #expect(found[0] == 0 && found[1] > 0)
    }

    @Test(
        "sign wipes the passphrase and the private key from its memory after use", .enabled(if: isRoot, whyRoot),
        arguments: [true, false])
    func signLeavesNeitherPassphraseNorKey(isEncrypted: Bool) async throws {
        let sandbox = try sandbox()
        let options = isEncrypted ? ["--passphrase-fd", "3"] : []
        let keygen = try await sandbox.shell(
            "exec \"$0\" keygen release \(isEncrypted ? "--encrypt --passphrase-fd 3 3<secret" : "")")
        #expect(keygen.exit == 0)
        let der = try await sandbox.openssl("pkey", "-in", "release.pem", "-passin", "file:secret", "-outform", "DER")
        try sandbox.write("seed", Array(der.suffix(32)))
        let found = try await search(
            sandbox, marker: "out.otaf", secrets: ["secret", "seed"],
            ["sign", "image", "--key", "release.pem", "--product", "demo", "--version", "1.0.0", "-o", "out.otaf"]
                + options)
        #expect(found[0] == 0 && found[1] == 0 && found[2] > 0)
    }

    @Test("sign wipes the PIN of a token from its memory after use", .enabled(if: isRoot, whyRoot))
    func signLeavesNoPIN() async throws {
        let sandbox = try sandbox()
        try await sandbox.makeToken(pin: "correct horse 8841")
        let keygen = try await sandbox.shell(
            "exec \"$0\" keygen release --in 'pkcs11:object=fw' --pin-fd 3 3<secret", env: sandbox.tokens())
        #expect(keygen.exit == 0, "\(keygen.err)")
        let found = try await search(
            sandbox, marker: "out.otaf", secrets: ["secret"],
            [
                "sign", "image", "--key", "pkcs11:object=fw", "--product", "demo", "--version", "1.0.0", "-o",
                "out.otaf",
                "--pin-fd", "3",
            ], env: sandbox.tokens().merging(["PIN": ""]) { $1 })
        #expect(found[0] == 0 && found[1] > 0)
    }

    @Test("neither the output nor the log of sign contains the PIN, also for a refused command")
    func logContainsNoPIN() async throws {
        let sandbox = try sandbox()
        try await sandbox.makeToken()
        let command = ["sign", "image", "--product", "demo", "--version", "1.0.0", "-o", "out.otaf", "--log", "log"]
        #expect(
            try await sandbox.run(
                "keygen", "release", "--in", "pkcs11:object=fw", "--pin-env", "PIN", env: sandbox.tokens()
            )
            .exit == 0)
        var text = ""
        for (key, status) in [
            ("pkcs11:object=fw", 0), ("pkcs11:object=other", 66), ("pkcs11:object=fw?pin-value=user%20pin%208841", 64),
            ("pkcs11:object=fw;pin-value=8841;x=%zz", 64),
        ] {
            let run = try await sandbox.run(
                command + ["--key", key, "--pin-env", "PIN", "--verbose"], env: sandbox.tokens())
            #expect(run.exit == Int32(status), "\(run.err)")
            text += run.out + run.err
        }
        text += String(decoding: try sandbox.read("log"), as: UTF8.self)
        #expect(text.contains("pin-value='***") && !text.contains("8841"), "\(text)")
    }

    /// otaflash does not change its environment. The test also proves that the search finds a secret.
    @Test("a passphrase in an environment variable stays in the environment", .enabled(if: isRoot, whyRoot))
    func theEnvironmentIsTheCallersOwn() async throws {
        let found = try await search(
            sandbox(), marker: "release.pub.pem", secrets: ["secret"],
            ["keygen", "release", "--encrypt", "--passphrase-env", "SECRET"], env: ["SECRET": "correct horse 8841"])
        #expect(found[0] > 0)
    }

    /// Signs with two keys. The second key is a pipe without a writer, so sign waits with the first key in memory.
    ///
    /// The process has the limits of a shell that allows core dumps. It does not run as root. The signal ends it.
    private static let midSign = """
        mkfifo slow && ulimit -c unlimited && chmod 777 . || exit 99
        rights=; [ "$(id -u)" != 0 ] || { install --mode=755 "$0" otaflash; rights='setpriv --reuid=65534 --clear-groups'; chown 65534 release.pem slow; }
        [ -e otaflash ] || ln -s "$0" otaflash
        env --default-signal $rights ./otaflash sign image --key release.pem --key slow --product demo --version 1.0.0 -o out.otaf &
        exec 9>slow
        grep 'core file' /proc/$!/limits
        echo "owner of its memory: $(stat -c %u /proc/$!/mem)"
        kill -s $1 $!
        wait $!
        echo "status $?"
        ls
        """

    @Test(
        "a signal during sign leaves no core dump and no crash report, and only root can read the process's memory",
        arguments: ["SEGV", "QUIT", "ABRT"])
    func crashInMidSign(signal: String) async throws {
        let sandbox = try sandbox()
        #expect(try await sandbox.run("keygen", "release").exit == 0)
        for env in [[:], ["SWIFT_BACKTRACE": "enable=yes"]] {
            let run = try await sandbox.shell(Self.midSign + "\nrm slow", signal, env: env)
            let lines = run.out.split(separator: "\n")
            // The soft limit and the hard limit.
            #expect(lines.first?.split(separator: " ").filter { $0 == "0" }.count == 2, "\(run.out)\(run.err)")
            #expect(lines.contains("owner of its memory: 0"), "\(run.out)")
            let number = ["SEGV": 11, "QUIT": 3, "ABRT": 6][signal] ?? 0
            #expect(lines.contains("status \(128 + number)"), "\(run.out)")
            #expect(!lines.contains { $0.hasPrefix("core") } && !lines.contains("out.otaf"), "\(run.out)")
            #expect(!run.err.contains("Crash") && !run.err.contains("Thread 0"), "\(run.err)")
        }
    }
}
