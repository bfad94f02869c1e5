import Glibc
import OTAFirmware
import OTAFleet
import OTALocalStore
import OTASigning
import OTAStore
import OTATestSupport
import SystemPackage
import Testing

/// Rollouts that operators with different clocks create.
@Suite("Fleet: clocks of operators") struct FleetClockTests {
    @Test("a rollout is created after each rollout of its product, also if their clock was ahead by less than 300 s")
    func ahead() async throws {
        let fleet = try await Fleet(devices: 1)
        let other = try await rollout("ahead", by: 240, in: fleet)
        let run = try await fleet.create("hotfix")
        #expect(try run.json().rollout?.created?.string == other.created.advanced(by: 1).description)
        let expires = try #require(try run.json().rollout?.expires?.string.flatMap { Timestamp($0) })
        #expect(expires == other.created.advanced(by: 1 + 30 * 86_400))
        let third = try await fleet.create("third")
        #expect(try third.json().rollout?.created?.string == other.created.advanced(by: 2).description)
    }

    @Test("a rollout of the product that was created more than 300 s ahead prevents a new rollout until it is aborted")
    func farAhead() async throws {
        let fleet = try await Fleet(devices: 1)
        _ = try await rollout("cars", of: "car", by: 4000, in: fleet)
        let created = try await fleet.create("before")
        #expect(try #require(try created.json().rollout?.created?.string.flatMap { Timestamp($0) }) <= now())
        let other = try await rollout("ahead", by: 400, in: fleet)
        let run = try await fleet.run(
            ["rollout", "create", "hotfix", "--release", fleet.release, "--select", "product=demo", "--key", "ops.pem"]
                + ["--format", "json"])
        let error = try run.json().error
        #expect(run.exit == 77 && error?.code?.string == "clock-not-set", "\(run.out)")
        #expect(error?.message?.string?.contains("the rollout ahead") == true)
        #expect(error?.message?.string?.contains("\(other.created)") == true)
        #expect(error?.hint?.string?.contains("otaflash rollout abort ahead") == true, "\(run.out)")
        #expect(try await fleet.change("abort", "ahead").exit == 0)
        let next = try await fleet.create("hotfix")
        #expect(next.err.contains("the aborted rollout ahead was created at \(other.created)"), "\(next.err)")
        // The rollout 'before' can have been created in the same second, and 'hotfix' is later by 1 s then.
        let latest = try now().advanced(by: 1)
        #expect(try #require(try next.json().rollout?.created?.string.flatMap { Timestamp($0) }) <= latest)
    }

    private func now() throws -> Timestamp { try #require(Timestamp(seconds: Int64(time(nil)))) }

    /// Writes a rollout of the fleet's operator that was created `seconds` in the future.
    private func rollout(
        _ name: String, of product: String = "demo", by seconds: Int64, in fleet: Fleet
    ) async throws -> Rollout {
        let key = try PrivateKey(
            pem: KeyFile.privateKeyText(at: fleet.sandbox.folder.appending("ops.pem")), passphrase: nil)
        let operators = OperatorKeys(try TrustStore([key.publicKey]))
        let created = try now().advanced(by: seconds)
        let manifest = try Manifest(
            imageFormat: .raw, imageSize: 1, securityCounter: 1, created: 1_767_225_600,
            imageDigest: SHA256.digest(of: [1]), version: try #require(SemanticVersion("1.1.0")),
            product: try #require(ProductName(product)))
        let signature = try #require(
            BundleSignature(.ed25519, keyID: key.publicKey.id, signature: key.sign(manifest.bytes)))
        let bundle = try SignedBundle(envelope: Envelope(manifest: manifest, signatures: [signature]), image: [1])
        let verified = try Verifier(trust: TrustStore([key.publicKey])).verify(bundle)
        let release = try operators.release(operators.sign(FleetRelease(of: verified), with: key).encoded())
        let rollout = try Rollout(
            name: #require(RolloutName(name)), release: release,
            selection: Selection(product: #require(ProductName(product))), stages: [#require(Stage(.percent(100)))],
            halt: #require(Rollout.Halt(failedPercent: 5, minimum: 10)), attempts: 3,
            enrolment: Enrolment(.bluetooth, .none), salt: Array(repeating: 0, count: 16), controllers: [key.publicKey],
            created: created, expires: created.advanced(by: 1000))
        try await fleet.overwrite(
            .rollouts, name, String(decoding: operators.sign(rollout, with: key).encoded(), as: UTF8.self))
        return rollout
    }
}
