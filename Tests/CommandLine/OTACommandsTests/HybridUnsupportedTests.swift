import OTAFirmware
import OTASigning
import Testing

@Suite(
    "Commands with ML-DSA keys and an old libcrypto",
    .enabled(if: !SignatureAlgorithm.mlDSA65.isAvailable, "libcrypto supports ML-DSA"))
struct HybridUnsupportedTests {
    @Test(
        "keygen refuses ML-DSA with unsupported-openssl and exit 69, and writes nothing",
        arguments: ["hybrid", "ml-dsa-44", "ml-dsa-65", "ml-dsa-87"])
    func keygen(_ algorithm: String) async throws {
        let sandbox = try Sandbox()
        let run = try await sandbox.run("keygen", "release", "--algorithm", algorithm, "--format", "json")
        #expect(try run.exit == 69 && run.json().error?.code?.string == "unsupported-openssl", "\(run.out)")
        #expect(
            try run.json().error?.message?.string?.contains("needs OpenSSL 3.5 or later; this machine has 3.0") == true)
        #expect(try sandbox.names().filter { $0.hasPrefix("release") } == [])
    }

    @Test("inspect shows an ML-DSA public key, and names the needed OpenSSL for a private key")
    func inspect() async throws {
        let sandbox = try Sandbox()
        let key = try PublicKey(algorithm: .mlDSA65, bytes: [UInt8](repeating: 7, count: 1952))
        try sandbox.write("key.pub.pem", key.pem().withUnsafeBytes { Array($0) })
        let run = try await sandbox.run("inspect", "key.pub.pem", "--format", "json")
        let json = try run.json()
        #expect(run.exit == 0 && json.key?.algorithm?.string == "ML-DSA-65" && json.key?.key_id?.string == "\(key.id)")
        #expect(json.key?.key_hash == nil)
        let seed =
            "30340201003 00b06096086480165030403120422 8020".filter { $0 != " " } + String(repeating: "01", count: 32)
        let text = String(decoding: Base64.encode(try #require(Hex.decode(seed))), as: UTF8.self)
        try sandbox.write("key.pem", Array("-----BEGIN PRIVATE KEY-----\n\(text)\n-----END PRIVATE KEY-----\n".utf8))
        #expect(try await sandbox.shell("chmod 600 key.pem").exit == 0)
        let secret = try await sandbox.run("inspect", "key.pem", "--format", "json")
        #expect(try secret.exit == 69 && secret.json().error?.code?.string == "unsupported-openssl", "\(secret.out)")
    }

    @Test("verify refuses a bundle whose ML-DSA signature cannot be checked, and inspect shows the reason")
    func verify() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 1000)
        let key = try PublicKey(algorithm: .mlDSA65, bytes: [UInt8](repeating: 7, count: 1952))
        try sandbox.write("key.pub.pem", key.pem().withUnsafeBytes { Array($0) })
        let bundle = try SignedBundle(parsing: sandbox.read("fw.otaf"))
        let entry = try #require(
            BundleSignature(.mlDSA65, keyID: key.id, signature: [UInt8](repeating: 1, count: 3309)))
        try sandbox.write("both.otaf", bundle.envelope.adding(entry).bytes + bundle.image)
        let trust = ["--trust", "release.pub.pem", "--trust", "key.pub.pem", "--format", "json"]
        let run = try await sandbox.run(["verify", "both.otaf"] + trust)
        #expect(try run.exit == 69 && run.json().error?.code?.string == "unsupported-openssl", "\(run.out)")
        #expect(
            try run.json().error?.hint?.string?.contains("OpenSSL 3.5, such as Debian 13; or remove the ML-DSA key")
                == true)
        let inspect = try await sandbox.run(["inspect", "both.otaf"] + trust)
        let entries = try #require(try inspect.json().bundle?.signatures?.array)
        #expect(
            inspect.exit == 0 && entries.contains { $0.unchecked?.string?.contains("OpenSSL 3.5") == true },
            "\(inspect.out)")
        // Without the ML-DSA key among the trusted keys, the Ed25519 signature is enough.
        #expect(try await sandbox.run("verify", "both.otaf", "--trust", "release.pub.pem").exit == 0)
    }
}
