import OTATestSupport
import SystemPackage
import Testing

@Suite("Commands attest and verify --attestation") struct AttestTests {
    static let github = [
        "GITHUB_RUN_ID": "7", "GITHUB_RUN_ATTEMPT": "2", "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "acme/lamp", "GITHUB_WORKFLOW_REF": "acme/lamp/.github/workflows/release.yml@refs/tags/v1",
        "GITHUB_REF": "refs/tags/v1", "GITHUB_SHA": "0123456789012345678901234567890123456789",
    ]
    static let gitlab = [
        "CI_JOB_URL": "https://gitlab.example/acme/lamp/-/jobs/12",
        "CI_PROJECT_URL": "https://gitlab.example/acme/lamp",
        "CI_RUNNER_ID": "3", "CI_COMMIT_SHA": "0123456789012345678901234567890123456789",
    ]
    private static let verify = [
        "verify", "fw.otaf", "--trust", "release.pub.pem", "--attestation", "fw.otaf.intoto.jsonl", "--format", "json",
    ]

    let sandbox: Sandbox

    init() async throws {
        sandbox = try Sandbox()
        try await sandbox.release(
            size: 500,
            options: ["--hardware", "1..3", "--counter", "4", "--requires", "1.0.0", "--minimum-battery", "20"])
        try await sandbox.run("keygen", "other")
        try sandbox.write("app.spdx.json", Array(#"{"spdxVersion":"SPDX-2.3","name":"app"}"#.utf8))
    }

    private func attest(_ options: String..., env: [String: String] = Self.github) async throws -> Run {
        let key = options.contains("--key") ? [] : ["--key", "release.pem"]
        return try await sandbox.run(["attest", "fw.otaf"] + key + options, env: env)
    }

    private func verify(_ options: String...) async throws -> Run { try await sandbox.run(Self.verify + options) }

    private func attestSBOM(_ options: String...) async throws -> Run {
        try await sandbox.run(
            [
                "attest", "fw.otaf", "--key", "release.pem", "--predicate", "app.spdx.json", "--predicate-type",
                "https://spdx.dev/Document",
            ] + options)
    }

    private func code(_ run: Run) throws -> String? { try run.json().error?.code?.string }

    private func peer(_ arguments: String...) async throws -> [String] {
        let script = FilePath(#filePath).removingLastComponent().appending("Support/dsse_peer.py").string
        let paths = arguments.map { word in
            // KEYID=KEY.pem is a key with its name.
            let parts = word.split(separator: "=", maxSplits: 1).map(String.init)
            guard let last = parts.last, sandbox.exists(last) else { return word }
            return (parts.dropLast() + [sandbox.path(last)]).joined(separator: "=")
        }
        let command = try await Command.run(PythonEnvironment.python, [script] + paths)
        try #require(command.succeeded, "\(command.errorText)")
        return command.outputText.split(separator: "\n").map(String.init)
    }

    /// The lines of a file.
    private func lines(_ name: String = "fw.otaf.intoto.jsonl") throws -> [String] {
        try String(decoding: sandbox.read(name), as: UTF8.self).split(separator: "\n").map(String.init)
    }

    /// The statement in a line of a file, as text.
    private func statement(_ line: Int = 0) async throws -> String {
        try sandbox.write("line", Array(lines()[line].utf8))
        let script =
            "python3 -c 'import base64, json; print(base64.b64decode(json.load(open(\"line\"))[\"payload\"]).decode())'"
        return try await sandbox.shell(script).out
    }

    @Test("the provenance of a GitHub or GitLab job names the builder, the job, the commit and the manifest's fields")
    func provenance() async throws {
        for (env, builder, job, repository) in [
            (
                Self.github, "https://github.com/acme/lamp/.github/workflows/release.yml@refs/tags/v1",
                "https://github.com/acme/lamp/actions/runs/7/attempts/2",
                "git+https://github.com/acme/lamp@refs/tags/v1"
            ),
            (
                Self.gitlab, "https://gitlab.example/acme/lamp/-/runners/3",
                "https://gitlab.example/acme/lamp/-/jobs/12",
                "git+https://gitlab.example/acme/lamp"
            ),
        ] {
            let run = try await attest("-o", "-", env: env)
            #expect(run.exit == 0, "\(run.err)")
            try sandbox.write("fw.otaf.intoto.jsonl", Array(run.out.utf8))
            let text = try await statement()
            let json = try JSONValue(parsing: text)
            #expect(json._type?.string == "https://in-toto.io/Statement/v1")
            #expect(json.predicateType?.string == "https://slsa.dev/provenance/v1")
            let build = json.predicate?.buildDefinition
            let expected =
                #"{"counter":4,"hardware":"1..3","minimumBattery":20,"product":"demo","requires":"1.0.0","version":"1.1.0"}"#
            #expect(build?.externalParameters == (try JSONValue(parsing: expected)))
            #expect(build?.resolvedDependencies?[0]?.uri?.string == repository)
            #expect(build?.resolvedDependencies?[0]?.digest?.gitCommit?.string == Self.github["GITHUB_SHA"])
            #expect(json.predicate?.runDetails?.builder?.id?.string == builder)
            #expect(json.predicate?.runDetails?.metadata?.invocationId?.string == job)
            let verified = try await verify()
            #expect(verified.exit == 0, "\(verified.err)")
            let attestation = try verified.json().attestations?[0]
            #expect(attestation?.builder?.string == builder && attestation?.subject?.string == "bundle")
        }
    }

    @Test("without a build service, or with an incomplete one, attest fails with exit 64 and names the options")
    func noBuildService() async throws {
        var environments: [[String: String]] = [[:], ["CI": "true"]]
        for name in Self.github.keys where name != "GITHUB_RUN_ID" {
            environments.append(Self.github.filter { $0.key != name })
        }
        for name in Self.gitlab.keys where name != "CI_JOB_URL" {
            environments.append(Self.gitlab.filter { $0.key != name })
        }
        environments.append(Self.github.merging(["GITHUB_SHA": "main"]) { $1 })
        environments.append(Self.github.merging(["GITHUB_SERVER_URL": "github.com"]) { $1 })
        environments.append(Self.github.merging(["GITHUB_REF": "a b"]) { $1 })
        for env in environments {
            let run = try await attest("--format", "json", env: env)
            #expect(run.exit == 64, "\(env)")
            #expect(try run.json().error?.hint?.string?.contains("--predicate FILE --predicate-type URI") == true)
            #expect(!sandbox.exists("fw.otaf.intoto.jsonl"))
        }
    }

    @Test("an attestation has the digests that sha256sum prints, and names each --subject")
    func subjects() async throws {
        let run = try await attestSBOM("--subject", "app.spdx.json", "--subject", "release.pub.pem", "--format", "json")
        #expect(run.exit == 0, "\(run.err)")
        let subjects = try #require(try run.json().attestation?.subjects?.array)
        #expect(
            subjects.map { $0.name?.string } == [
                "fw.otaf", "fw.otaf#image", "fw.otaf#manifest", "app.spdx.json", "release.pub.pem",
            ])
        // The manifest is at the start of the bundle, and its length is in the bytes 6 and 7 (docs/bundle-format.md).
        let sums = try await sandbox.shell(
            """
            head -c "$(od -An -tu2 -j6 -N2 fw.otaf | tr -d ' ')" fw.otaf >manifest
            sha256sum fw.otaf fw.bin manifest app.spdx.json release.pub.pem | cut -d' ' -f1
            """)
        #expect(subjects.compactMap { $0.sha256?.string } == sums.out.split(separator: "\n").map(String.init))
        #expect(try await attestSBOM("--subject", "app.spdx.json", "--subject", "app.spdx.json").exit == 64)
        #expect(try await attestSBOM("--subject", "none").exit == 66)
    }

    @Test(
        "attestations are appended, and securesystemslib and in-toto-attestation accept them and refuse a changed bit")
    func peersAccept() async throws {
        #expect(try await attest().exit == 0)
        #expect(try await attestSBOM().exit == 0)
        let id =
            try await sandbox.run("inspect", "release.pub.pem", "--format", "json").json().key?.key_id?.string ?? "?"
        let file = "fw.otaf.intoto.jsonl"
        #expect(
            try await peer("verify", file, "release.pub.pem") == [
                "accepted \(id) https://slsa.dev/provenance/v1", "accepted \(id) https://spdx.dev/Document",
            ])
        #expect(try await peer("verify", file, "other.pub.pem") == ["refused", "refused"])
        let verified = try await verify()
        #expect(verified.exit == 0, "\(verified.err)")
        #expect(
            try verified.json().attestations?.array?.map { $0.predicate_type?.string } == [
                "https://slsa.dev/provenance/v1", "https://spdx.dev/Document",
            ])
        // `Q` and `R` differ in one bit of the payload, and the text is still Base64.
        let changed = try lines().map { line in
            let start = "{\"payload\":\"eyJfdHlwZSI6"
            #expect(line.hasPrefix(start))
            return line.replacing("\"payload\":\"eyJf", with: "\"payload\":\"eyJe", maxReplacements: 1)
        }
        try sandbox.write(file, Array(changed.joined(separator: "\n").utf8))
        #expect(try await peer("verify", file, "release.pub.pem") == ["refused", "refused"])
        let refused = try await verify()
        #expect(refused.exit == 77)
        #expect(try code(refused) == "attestation-bad-signature")
    }

    @Test("openssl verifies the signature over DSSE's encoding of the payload")
    func opensslVerifies() async throws {
        #expect(try await attestSBOM().exit == 0)
        let run = try await sandbox.shell(
            """
            set -e
            member() { sed "s/.*\\"$1\\":\\"\\([^\\"]*\\)\\".*/\\1/" fw.otaf.intoto.jsonl | base64 -d; }
            member payload >payload
            member sig >sig
            { printf 'DSSEv1 28 application/vnd.in-toto+json %d ' "$(wc -c <payload)"; cat payload; } >pae
            openssl pkeyutl -verify -rawin -pubin -inkey release.pub.pem -sigfile sig -in pae
            """)
        #expect(run.exit == 0 && run.out.contains("Signature Verified Successfully"), "\(run.out)\(run.err)")
    }

    @Test("envelopes of securesystemslib are accepted, with any key id, several signatures and both alphabets")
    func acceptsPeers() async throws {
        #expect(try await attestSBOM().exit == 0)
        try sandbox.write("statement", Array(await statement().utf8))
        let keys = [["one=release.pem"], ["one=other.pem", "two=release.pem"], ["one=release.pem", "two=other.pem"]]
        for keys in keys {
            for alphabet in [[], ["--url-safe"]] {
                let script = FilePath(#filePath).removingLastComponent().appending("Support/dsse_peer.py").string
                let words = keys.map { $0.replacing("=", with: "=\(sandbox.folder)/") }
                let command = try await Command.run(
                    PythonEnvironment.python, [script, "sign", sandbox.path("statement")] + words + alphabet)
                try #require(command.succeeded, "\(command.errorText)")
                try sandbox.write("fw.otaf.intoto.jsonl", command.output)
                let run = try await verify()
                #expect(run.exit == 0, "\(run.err)")
                let other = try await verify(
                    "--attestation-trust", "release.pub.pem", "--attestation-trust", "other.pub.pem")
                #expect(try other.json().attestations?[0]?.signers?.array?.count == keys.count)
                let changed = command.outputText.replacing("eyJf", with: "eyJe", maxReplacements: 1)
                try sandbox.write("fw.otaf.intoto.jsonl", Array(changed.utf8))
                let refused = try await verify()
                #expect(refused.exit == 77)
                #expect(try code(refused) == "attestation-untrusted")
            }
        }
    }

    @Test("a cut line, an empty file and a key as the file are refused with exit 65")
    func malformed() async throws {
        #expect(try await attest().exit == 0)
        let whole = try sandbox.read("fw.otaf.intoto.jsonl")
        for count in [1, whole.count / 2, whole.count - 2] {
            try sandbox.write("fw.otaf.intoto.jsonl", Array(whole.prefix(count)))
            let run = try await verify()
            #expect(run.exit == 65)
            #expect(try code(run) == "attestation-malformed")
            // attest never appends to such a file.
            #expect(try await attestSBOM().exit == 65)
            #expect(try sandbox.read("fw.otaf.intoto.jsonl").count == count)
        }
        // Only the line feed is missing.
        try sandbox.write("fw.otaf.intoto.jsonl", Array(whole.dropLast()))
        #expect(try await verify().exit == 0)
        #expect(try await attestSBOM().exit == 0)
        #expect(try await verify().exit == 0)
        #expect(try lines().count == 2)
        try sandbox.write("fw.otaf.intoto.jsonl", [])
        #expect(try await verify().exit == 65)
        #expect(try await attest().exit == 0)
        let key = try sandbox.read("release.pem")
        #expect(try await attestSBOM("-o", "release.pem").exit == 65)
        #expect(try sandbox.read("release.pem") == key)
    }

    @Test("an attestation by another key, and an attestation of another bundle, are refused with exit 77")
    func refused() async throws {
        #expect(try await attest("--key", "other.pem").exit == 0)
        let untrusted = try await verify()
        #expect(untrusted.exit == 77)
        #expect(try code(untrusted) == "attestation-untrusted")
        #expect(
            try untrusted.json().error?.hint?.string?.hasSuffix(
                "--attestation-trust release.pub.pem --attestation-trust KEY.pub.pem") == true)
        #expect(try await verify("--attestation-trust", "other.pub.pem").exit == 0)
        // A key of --attestation-trust must not sign bundles, and the other keys must not attest.
        try sandbox.write("fw.otaf.intoto.jsonl", [])
        #expect(try await attest().exit == 0)
        #expect(try code(await verify("--attestation-trust", "other.pub.pem")) == "attestation-untrusted")

        try await sandbox.release(size: 600, "--force", "--counter", "4")
        let differs = try await verify()
        #expect(differs.exit == 77)
        #expect(try code(differs) == "attestation-differs")
        let appended = try await attest("--format", "json")
        #expect(appended.exit == 77)
        #expect(try code(appended) == "attestation-differs")
    }

    @Test("an attestation stays valid when the bundle gets another signature")
    func anotherSignature() async throws {
        #expect(try await attest().exit == 0)
        #expect(try await sandbox.run("sign", "fw.otaf", "--key", "other.pem", "--force").exit == 0)
        let run = try await verify()
        #expect(run.exit == 0, "\(run.err)")
        #expect(try run.json().attestations?[0]?.subject?.string == "manifest")
    }

    @Test("attest refuses a bundle with a changed image, a malformed predicate and unusable options")
    func refusesToAttest() async throws {
        for text in ["", "[]", "SPDXVersion: SPDX-2.3", #"{"a":1,"a":2}"#] {
            try sandbox.write("app.spdx.json", Array(text.utf8))
            let run = try await attestSBOM("--format", "json")
            #expect(run.exit == 65)
            #expect(try code(run) == (text.isEmpty ? "empty-file" : "predicate-malformed"))
        }
        try sandbox.write("app.spdx.json", Array("{}".utf8))
        for words in [
            ["--predicate", "app.spdx.json"], ["--predicate-type", "urn:x"],
            ["--predicate", "app.spdx.json", "--predicate-type", "spdx"],
            ["--predicate", "app.spdx.json", "--predicate-type", "urn:"],
            ["--predicate", "app.spdx.json", "--predicate-type", "urn:a b"],
            ["--subject", "-", "--predicate", "-", "--predicate-type", "urn:x"],
            ["-o", "-", "--format", "json"], ["-o", "log", "--log", "log"],
        ] {
            let run = try await sandbox.run(["attest", "fw.otaf", "--key", "release.pem"] + words, env: Self.github)
            #expect(run.exit == 64, "\(words)")
        }
        #expect(try await sandbox.run("attest", "-", "--key", "release.pem").exit == 64)
        #expect(try await verify("--attestation", "-").exit == 64)
        #expect(
            try await sandbox.run("verify", "fw.otaf", "--attestation-trust", "release.pub.pem").err.contains(
                "--attestation is missing"))
        var bytes = try sandbox.read("fw.otaf")
        bytes[bytes.count - 1] ^= 1
        try sandbox.write("fw.otaf", bytes)
        let run = try await attest("--format", "json")
        #expect(run.exit == 77)
        #expect(try code(run) == "digest-mismatch")
        try await sandbox.mcuboot()
        #expect(try await sandbox.run("attest", "fw.signed.bin", "--key", "release.pem").exit == 65)
        let image = try await sandbox.run(
            "verify", "fw.signed.bin", "--trust", "release.pub.pem", "--attestation", "fw.otaf.intoto.jsonl")
        #expect(image.exit == 64 && image.err.contains("--attestation is for bundles"), "\(image.err)")
    }

    @Test("a key in a PKCS#11 token signs an attestation")
    func token() async throws {
        try await sandbox.makeToken()
        let uri = "pkcs11:token=release;object=attest"
        let env = sandbox.tokens().merging(["PIN": Sandbox.pin]) { $1 }.merging(Self.github) { $1 }
        let made = try await sandbox.run(["keygen", "token", "--in", uri, "--pin-env", "PIN"], env: env)
        #expect(made.exit == 0, "\(made.err)")
        let run = try await attest("--key", uri, "--pin-env", "PIN", env: env)
        #expect(run.exit == 0, "\(run.err)")
        #expect(try await verify("--attestation-trust", "token.pub.pem").exit == 0)
        #expect(try await peer("verify", "fw.otaf.intoto.jsonl", "token.pub.pem").first?.hasPrefix("accepted ") == true)
    }

    @Test("the same attestation is the same to the byte each time, and standard input and output work")
    func isReproducible() async throws {
        let first = try await attest("-o", "-")
        let second = try await attest("-o", "-")
        #expect(
            first.exit == 0 && first.out == second.out && first.err.contains("otaflash: note: Wrote standard output"))
        let run = try await sandbox.shell(
            #"""
            "$0" attest - --key release.pem -o - <fw.otaf |
                "$0" verify fw.otaf --trust release.pub.pem --attestation -
            """#, env: Self.github)
        #expect(
            run.exit == 0 && run.out.contains("Attestation: https://slsa.dev/provenance/v1, built by "), "\(run.err)")
    }
}
