import FoundationEssentials
import Glibc
import OTATestSupport
import SystemPackage
import Testing

/// The scripts that make a release: its signature and the recorded versions of its dependencies.
@Suite("Release scripts: signature and recorded versions") struct ReleaseTests {
    private let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    private func script(_ name: String, _ arguments: String..., env: [String: String] = [:]) async throws -> Run {
        var variables = env
        // Python must not write compiled files into the repository. It must find the same toolchain as the tests.
        variables["PYTHONDONTWRITEBYTECODE"] = "1"
        variables["PATH"] = getenv("PATH").map { String(cString: $0) }
        return Run(
            try await Command.run(
                Sandbox.repository("scripts/" + name), arguments, environment: sandbox.environment(variables),
                in: sandbox.folder))
    }

    // MARK: The signature

    private func sign(_ key: String = "k.pem", _ comment: String = "otaflash 1.2.3", env: [String: String] = [:])
        async throws -> Run
    {
        try sandbox.write("SHA256SUMS", Array("00  otaflash.tar.gz\n".utf8))
        return try await script("minisign.py", key, "SHA256SUMS", comment, env: env)
    }

    /// Verifies the signature of the sums with the public key `k.pub.pem` and openssl alone, as in docs/releases.md.
    private func opensslVerifies() async throws -> Bool {
        let run = try await sandbox.shell(
            """
            sed -n 2p SHA256SUMS.minisig | base64 -d | tail -c 64 >signature
            openssl pkeyutl -verify -pubin -inkey k.pub.pem -rawin -in SHA256SUMS -sigfile signature
            """)
        return run.exit == 0
    }

    @Test("the signature of the sums has the format of minisign, and openssl alone verifies it")
    func signsAsMinisignDoes() async throws {
        #expect(try await sandbox.run("keygen", "k").exit == 0)
        let run = try await sign()
        #expect(run.exit == 0, "\(run.err)")
        #expect(try await opensslVerifies())

        let lines = String(decoding: try sandbox.read("SHA256SUMS.minisig"), as: UTF8.self).split(separator: "\n")
        try #require(lines.count == 4)
        #expect(lines[0].hasPrefix("untrusted comment: ") && lines[2] == "trusted comment: otaflash 1.2.3")
        let (signature, whole) = (try base64(lines[1]), try base64(lines[3]))
        let key = try base64(run.out.split(separator: "\n")[0])
        #expect(signature.count == 74 && key.count == 42 && whole.count == 64)
        // The signature and the key both begin with the algorithm and the key ID.
        #expect(signature.starts(with: Array("Ed".utf8)) && signature.prefix(10) == key.prefix(10))
        // The comment is signed together with the signature.
        try sandbox.write("SHA256SUMS", signature.suffix(64) + Array("otaflash 1.2.3".utf8))
        try sandbox.write(
            "SHA256SUMS.minisig",
            Array("x\n\(try await sandbox.shell("sed -n 4p SHA256SUMS.minisig").out)".utf8))
        #expect(try await opensslVerifies())
    }

    @Test("the sums are refused when a byte of them was changed after signing")
    func noticesAChange() async throws {
        #expect(try await sandbox.run("keygen", "k").exit == 0)
        #expect(try await sign().exit == 0)
        try sandbox.write("SHA256SUMS", Array("01  otaflash.tar.gz\n".utf8))
        #expect(try await !opensslVerifies())
    }

    @Test("an encrypted release key opens with the passphrase in the environment")
    func signsWithAnEncryptedKey() async throws {
        let made = try await sandbox.run("keygen", "k", "--passphrase-env", "WORD", env: ["WORD": "a long one"])
        #expect(made.exit == 0, "\(made.err)")
        #expect(try await sign(env: ["OTAFLASH_RELEASE_PASSPHRASE": "another"]).exit == 77)
        #expect(!sandbox.exists("SHA256SUMS.minisig"))
        #expect(try await sign(env: ["OTAFLASH_RELEASE_PASSPHRASE": "a long one"]).exit == 0)
        #expect(try await opensslVerifies())
    }

    @Test("a release key that is missing, not Ed25519 or readable by others is refused with a hint")
    func refusesAKey() async throws {
        #expect(try await sandbox.run("keygen", "k").exit == 0)
        #expect(
            try await sandbox.shell(
                "chmod 640 k.pem && openssl genpkey -algorithm X25519 -out x.pem && chmod 600 x.pem"
            )
            .exit == 0)
        for (key, hint) in [("k.pem", "chmod 600 k.pem"), ("none.pem", "OTAFLASH_RELEASE_KEY="), ("x.pem", "keygen")] {
            let run = try await sign(key)
            #expect(run.exit == 77 && run.err.contains("hint: ") && run.err.contains(hint), "\(run.err)")
        }
        #expect(!sandbox.exists("SHA256SUMS.minisig"))
    }

    @Test("scripts/release fails before the build when the signing key is not named or does not exist")
    func aSignedReleaseNeedsAKey() async throws {
        let run = try await script("release", "--signed")
        #expect(run.exit == 77 && run.out.isEmpty, "\(run.out)")
        #expect(run.err.contains("hint: OTAFLASH_RELEASE_KEY=PATH scripts/release --signed"))
        let missing = try await script("release", env: ["OTAFLASH_RELEASE_KEY": "none.pem"])
        #expect(missing.exit == 77 && missing.out.isEmpty, "\(missing.out)")
        #expect(missing.err.contains("none.pem cannot be read"))
    }

    // MARK: The versions

    private func versions(_ verb: String) async throws -> Run {
        try await script("release_versions.py", verb, env: ["OTAFLASH_RELEASE_ROOT": sandbox.folder.string])
    }

    private func resolve(_ version: String) throws {
        let pins = """
            {"pins": [{"identity": "swift-log", "location": "https://example.org/Swift-Log.git",
                       "state": {"revision": "00", "version": "\(version)"}}]}
            """
        try sandbox.write("Package.resolved", Array(pins.utf8))
    }

    /// Makes a checkout of one package and records it.
    private func record() async throws {
        try sandbox.makeFolder("scripts")
        try sandbox.makeFolder(".build/checkouts/Swift-Log/.git")
        try sandbox.write(".build/checkouts/Swift-Log/Log.swift", Array("one".utf8))
        try sandbox.write(".build/checkouts/Swift-Log/.git/HEAD", Array("one".utf8))
        try resolve("1.2.3")
        let run = try await versions("record")
        #expect(run.exit == 0, "\(run.err)")
    }

    private func refusal() async throws -> String {
        let run = try await versions("check")
        #expect(run.exit == 65 && run.err.contains("hint: "), "\(run.err)")
        return run.err
    }

    @Test("a release is built from the recorded versions; git's own files are not compared")
    func acceptsWhatIsRecorded() async throws {
        try await record()
        try sandbox.write(".build/checkouts/Swift-Log/.git/HEAD", Array("two".utf8))
        let run = try await versions("check")
        #expect(run.exit == 0 && run.err.isEmpty, "\(run.err)")
        // The script documents these commands to compute the hash by hand.
        let sum = try await sandbox.shell(
            "cd .build/checkouts/Swift-Log && find . -name .git -prune -o -type f -print0 | LC_ALL=C sort -z "
                + "| xargs -0 sha256sum | sha256sum")
        let text = String(decoding: try sandbox.read("scripts/release-versions.txt"), as: UTF8.self)
        #expect(text.contains("package swift-log 1.2.3 sha256:\(sum.out.prefix(64))\n"), "\(text)")
    }

    @Test("a release fails when a package differs from the recorded version, and the hint resolves the recorded one")
    func refusesAnotherVersion() async throws {
        try await record()
        try resolve("1.2.4")
        let text = try await refusal()
        #expect(
            text.contains("recorded: package swift-log 1.2.3 ") && text.contains("here:     package swift-log 1.2.4 "))
        #expect(text.contains("swift package resolve swift-log --version 1.2.3"))
    }

    @Test("a release fails when a package's files are not the recorded ones", arguments: ["Log.swift", "More.swift"])
    func refusesOtherFiles(file: String) async throws {
        try await record()
        try sandbox.write(".build/checkouts/Swift-Log/\(file)", Array("two".utf8))
        let text = try await refusal()
        #expect(
            text.contains("recorded: package swift-log 1.2.3 ") && text.contains("here:     package swift-log 1.2.3 "))
        #expect(text.contains("scripts/release --record"))
    }

    @Test("a release fails when a library is not recorded, or when a recorded library is missing")
    func refusesAnotherList() async throws {
        try await record()
        let lines = String(decoding: try sandbox.read("scripts/release-versions.txt"), as: UTF8.self)
            .split(separator: "\n").filter { !$0.hasPrefix("library zlib ") }
        try sandbox.write(
            "scripts/release-versions.txt", Array((lines + ["library zlob 1.0", ""]).joined(separator: "\n").utf8))
        let text = try await refusal()
        #expect(text.contains("here:     library zlib ") && text.contains("recorded: library zlob 1.0"))
    }
}

private func base64(_ text: some StringProtocol) throws -> [UInt8] {
    try Array(#require(Data(base64Encoded: String(text))))
}
