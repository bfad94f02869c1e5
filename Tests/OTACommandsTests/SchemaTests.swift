import FakeBlueZ
import FoundationEssentials
import Glibc
import OTAFirmware
import OTASigning
import OTATestSupport
import Subprocess
import SystemPackage
import Testing

/// `scripts/test` compares the outputs of all tests with the schemas. These tests show that the comparison finds differences.
@Suite("JSON Schemas of the results and events") struct SchemaTests {
    /// Runs scripts/check-schema on these outputs. Each has the name of a schema and a line.
    private func check(_ outputs: [(schema: String, line: String)], _ options: String..., in sandbox: Sandbox)
        async throws
        -> Command
    {
        let lines = try outputs.map {
            String(
                decoding: try JSONEncoder().encode([
                    "schema": JSON.text($0.schema), "arguments": .words([]), "line": .text($0.line),
                ]),
                as: UTF8.self)
        }
        try sandbox.write("outputs.jsonl", Array(lines.joined(separator: "\n").utf8))
        return try await Command.run(
            PythonEnvironment.python,
            [Sandbox.repository("scripts/check-schema")] + options + [sandbox.folder.string])
    }

    private enum JSON: Encodable {
        case text(String), words([String])

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .text(let text): try container.encode(text)
            case .words(let words): try container.encode(words)
            }
        }
    }

    /// The outputs of a push, a dry run, a failure and a result with an error.
    private func outputs(_ sandbox: Sandbox) async throws -> [(schema: String, line: String)] {
        try await sandbox.release()
        try await sandbox.create()
        let push = [
            "push", "fw.otaf", "--device", "sim:kitchen?pace=virtual&drop-at=0.5", "--trust", "release.pub.pem",
            "--format",
            "json",
            "--progress", "json",
        ]
        var outputs: [(schema: String, line: String)] = []
        for words in [
            push + ["--dry-run"], push + ["--permanent"], push,
            ["status", "--device", "sim:kitchen", "--format", "json"],
            ["doctor", "--format", "json", "--trust", "release.pub.pem"], ["keygen", "k", "--format", "json"],
            ["simulate", "list", "--format", "json"], ["inspect", "fw.otaf", "--format", "json"],
        ] {
            let run = try await sandbox.run(words)
            outputs.append(("otaflash-1", String(run.out.dropLast())))
            if words.contains("--progress") {
                outputs += run.err.split(separator: "\n").map { ("progress-1", String($0)) }
            }
        }
        return outputs
    }

    @Test("the outputs of several commands follow the strict form of the schemas")
    func follow() async throws {
        let sandbox = try Sandbox()
        let outputs = try await outputs(sandbox)
        let check = try await check(outputs, "--partial", in: sandbox)
        #expect(check.succeeded, "\(check.outputText)\(check.errorText)")
        // Not all alternatives occurred.
        let complete = try await self.check(outputs, in: sandbox)
        #expect(complete.status == .exited(1), "\(complete.errorText)")
        #expect(complete.outputText.contains("did not occur in the tests: otaflash-1 gatt_read\n"))
        #expect(complete.outputText.contains("did not occur in the tests: progress-1 device-reset\n"))
    }

    /// Replacements that make an output differ from its schema.
    static let differences = [
        (#""schema":1"#, #""schema":1,"extra":1"#), (#""schema":1"#, #""schema":2"#),
        (#""state":"idle""#, #""state":"asleep""#),
        (#""outcome":"confirmed""#, #""outcome":"done""#), (#""code":"trial-available""#, #""code":"no-code""#),
        (#""given":"#, #""gave":"#), (#""image_size":20000"#, #""image_size":"20000""#), (#""exit":77"#, #""exit":0"#),
        (#""event":"link-lost""#, #""event":"link-found""#), (#""running_version":"1.1.0","#, ""),
        (#""resume_from":0"#, #""resume_from":null"#), (#""phase":"restart""#, #""phase":"reboot""#),
        (#""seconds":"#, #""secs":"#), (#""hint":"#, #""hints":"#), (#""plan":{"#, #""plan":{"more":1,"#),
    ]

    @Test("an output with another member, value or type does not follow the schemas")
    func differ() async throws {
        let sandbox = try Sandbox()
        let outputs = try await outputs(sandbox)
        for (old, new) in Self.differences {
            let index = try #require(outputs.firstIndex { $0.line.contains(old) }, "no output has \(old)")
            let changed = [(outputs[index].schema, outputs[index].line.replacing(old, with: new))]
            let check = try await check(changed, "--partial", in: sandbox)
            #expect(
                check.status == .exited(1) && check.outputText.contains("1 errors"),
                "\(new): \(check.outputText)\(check.errorText)")
        }
    }

    // scripts/check-schema needs each command as JSON. The tests of these commands read text.
    @Test("simulate remove and serve, gatt read and write, and inspect of an unknown field report JSON")
    func otherCommands() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.create("--protocol", "smp")
        let served = try await sandbox.shell(
            """
            "$0" "$@" 2>served & until grep -q ' is at ' served; do sleep 0.05; done
            kill -TERM $!; wait $!
            """, "simulate", "serve", "kitchen", "--udp", "0", "--format", "json")
        #expect(try served.json().devices?[0]?.address?.string == "sim:kitchen", "\(served.out)\(served.err)")
        let removed = try await sandbox.run("simulate", "remove", "kitchen", "--format", "json")
        #expect(try removed.json().devices?.array?.isEmpty == true)

        let key = try PrivateKey.generate()
        let manifest = try Manifest(
            imageFormat: .raw, imageSize: 3, securityCounter: 0, created: 0, imageDigest: SHA256.digest(of: [1, 2, 3]),
            version: try #require(SemanticVersion("1.1.0")), product: try #require(ProductName("demo")),
            unknownFields: [ManifestField(type: 0x0010, value: [1, 2, 3])])
        let signature = try #require(BundleSignature(keyID: key.publicKey.id, signature: try key.sign(manifest.bytes)))
        try sandbox.write("new.otaf", try Envelope(manifest: manifest, signatures: [signature]).bytes + [1, 2, 3])
        let inspected = try await sandbox.run("inspect", "new.otaf", "--format", "json")
        let field = try #require(try inspected.json().bundle?.unknown_fields?[0], "\(inspected.out)\(inspected.err)")
        #expect(field.type?.string == "0010" && field.value?.string == "010203" && field.critical?.bool == false)

        try await World.run { world in
            let words = [world.device, "--format", "json"]
            let environment = Sandbox.environment(of: world)
            let read = try await sandbox.run(
                ["gatt", "read"] + words + ["c7e10006-63a0-486d-9bcb-a18d79d9acd9"], env: environment)
            #expect(try read.json().value?.string == "312e302e30" && read.out.contains(#""string":"1.0.0""#))
            let written = try await sandbox.run(
                ["gatt", "write"] + words + ["c7e10004-63a0-486d-9bcb-a18d79d9acd9", "0000", "--without-response"],
                env: environment)
            #expect(try written.json().bytes?.number == 2, "\(written.out)")
        }
    }

    @Test("scripts/schema-codes finds no difference to docs/errors.md")
    func codes() async throws {
        let check = try await Command.run(
            "python3", [Sandbox.repository("scripts/schema-codes"), "--check"])
        #expect(check.succeeded && check.output.isEmpty, "\(check.outputText)\(check.errorText)")
    }
}
