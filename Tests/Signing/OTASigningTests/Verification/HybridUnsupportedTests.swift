import OTAFirmware
import OTASigning
import Testing

@Suite(
    "Bundles with ML-DSA signatures and an old libcrypto", .enabled(if: !MLDSA.isAvailable, "libcrypto supports ML-DSA")
)
struct HybridUnsupportedTests {
    private let classic: PrivateKey
    private let lattice: PublicKey
    private let bundle: SignedBundle

    init() throws {
        classic = try RFC8032.test1.privateKey()
        lattice = try MLDSA.publicKey(7)
        let half = try makeBundle(signedBy: [classic])
        let entry = try #require(
            BundleSignature(.mlDSA65, keyID: lattice.id, signature: [UInt8](repeating: 1, count: 3309)))
        bundle = try SignedBundle(envelope: half.envelope.adding(entry), image: half.image)
    }

    @Test("an entry by a trusted ML-DSA key that cannot be checked refuses the bundle, and not as invalid")
    func unchecked() throws {
        let verifier = Verifier(trust: try TrustStore([classic.publicKey, lattice]))
        let error = #expect(throws: VerificationError(.unsupportedOpenSSL, "")) { try verifier.verify(bundle) }
        #expect(error?.context.contains("ML-DSA-65 needs OpenSSL 3.5 or later") == true)
        let report = try #require(verifier.report(on: bundle.envelope).first { $0.keyID == lattice.id })
        #expect(report.trusted && report.valid == nil && report.failure?.code == .unsupportedOpenSSL)
        // An invalid signature by another trusted key is the more important error.
        let forged = try bundle.spoiling(signatureBy: classic)
        #expect(throws: VerificationError(.badSignature, "")) { try verifier.verify(forged) }
    }

    @Test("an entry by an ML-DSA key that is not trusted has no effect")
    func ignored() throws {
        let verifier = Verifier(trust: try TrustStore([classic.publicKey]))
        #expect(try verifier.verify(bundle).signers == [classic.publicKey.id])
    }

    @Test("a bundle that a trusted ML-DSA key has not signed is verified")
    func absent() throws {
        let verifier = Verifier(trust: try TrustStore([classic.publicKey, lattice]))
        #expect(try verifier.verify(makeBundle(signedBy: [classic])).signers == [classic.publicKey.id])
    }

    @Test("an attestation with a signature of a trusted ML-DSA key's length cannot be checked")
    func attestation() throws {
        let trust = try TrustStore([classic.publicKey, lattice])
        let verified = try Verifier(trust: trust).verify(makeBundle(signedBy: [classic]))
        let statement = Statement(
            subjects: verified.bundle.subjects(named: "fw.otaf"), predicateType: "https://example.org/x",
            predicate: .object([]))
        struct Fake: Signer {
            let publicKey: PublicKey
            func sign(_ message: [UInt8], in domain: SignatureDomain) throws(KeyError) -> [UInt8] { [] }
        }
        // Signing is refused, too: the signer's answer could not be checked.
        #expect(throws: KeyError(.signerProtocol, "")) {
            try AttestationEnvelope(signing: statement, with: [Fake(publicKey: lattice)])
        }
        let good = try AttestationEnvelope(signing: statement, with: [classic]).line
        let signature = String(decoding: Base64.encode([UInt8](repeating: 1, count: 3309)), as: UTF8.self)
        let line = String(decoding: good, as: UTF8.self).replacing(
            #""signatures":["#, with: #""signatures":[{"sig":"\#(signature)"},"#)
        let file = try AttestationFile(parsing: Array(line.utf8))
        #expect(throws: AttestationError(.unsupportedOpenSSL, "")) {
            try Verifier(trust: trust).verify(file, of: verified)
        }
    }
}
