import FakeBlueZ
import FoundationEssentials
import OTAFirmware
import OTASigning
import OTATestSupport
import Testing

@Suite("JSON Schemas of the results and events") struct SchemaTests {
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
        let signature = try #require(
            BundleSignature(.ed25519, keyID: key.publicKey.id, signature: try key.sign(manifest.bytes)))
        // Two signatures: the second one has an algorithm of a later format.
        var envelope = try Envelope(manifest: manifest, signatures: [signature]).bytes
        envelope[manifest.bytes.count] = 2
        envelope += [9, 0, 1, 0] + [UInt8](repeating: 0xFF, count: 8) + [7]
        try sandbox.write("new.otaf", envelope + [1, 2, 3])
        let inspected = try await sandbox.run("inspect", "new.otaf", "--format", "json")
        let field = try #require(try inspected.json().bundle?.unknown_fields?[0], "\(inspected.out)\(inspected.err)")
        #expect(field.type?.string == "0010" && field.value?.string == "010203" && field.critical?.bool == false)
        #expect(try inspected.json().bundle?.signatures?[1]?.algorithm?.string == "unknown")

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
}
