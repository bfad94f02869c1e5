import OTAFirmware
import OTASigning
import OTATestSupport
import OTAUpdate
import SystemPackage
import Testing

@Suite("Verification of bundles") struct VerifierTests {
    private let trusted, alsoTrusted, unknown: PrivateKey
    private let verifier: Verifier

    init() throws {
        trusted = try RFC8032.test1.privateKey()
        alsoTrusted = try RFC8032.test2.privateKey()
        unknown = try RFC8032.test3.privateKey()
        verifier = Verifier(trust: try TrustStore([trusted.publicKey, alsoTrusted.publicKey]))
    }

    @Test("the worked example of docs/bundle-format.md is verified with the documented digests")
    func acceptsTheWorkedExample() throws {
        let verified = try verifier.verify(WorkedExample.bundle())
        #expect(verified.bundle.bytes == WorkedExample.bytes)
        #expect(verified.signers == [trusted.publicKey.id])
        #expect(verified.manifestDigest.description.hasPrefix("53e0f6a77cd73185"))
        #expect(verified.envelopeDigest.description.hasPrefix("ab017464e2fa78e9"))
    }

    @Test("one signature by a trusted key is enough, and all trusted signers are returned")
    func oneTrustedSignatureIsEnough() throws {
        let verified = try verifier.verify(makeBundle(signedBy: [trusted, unknown]))
        #expect(verified.signers == [trusted.publicKey.id])
        let both = try verifier.verify(makeBundle(signedBy: [trusted, alsoTrusted]))
        #expect(Set(both.signers) == [trusted.publicKey.id, alsoTrusted.publicKey.id])
    }

    @Test("a signature by an unknown key is ignored, whether it is valid or not")
    func aSignatureByAnUnknownKeyDoesNotCountEitherWay() throws {
        let bundle = try makeBundle(signedBy: [trusted, unknown]).spoiling(signatureBy: unknown)
        #expect(try verifier.verify(bundle).signers == [trusted.publicKey.id])
        #expect(throws: VerificationError(.untrustedKey, "")) { try verifier.verify(makeBundle(signedBy: [unknown])) }
    }

    @Test("one invalid signature by a trusted key makes the bundle invalid")
    func aFailingTrustedSignatureSpoilsAll() throws {
        let bundle = try makeBundle(signedBy: [trusted, alsoTrusted]).spoiling(signatureBy: alsoTrusted)
        let error = #expect(throws: VerificationError(.badSignature, "")) { try verifier.verify(bundle) }
        #expect(error?.context.contains(alsoTrusted.publicKey.id.description) == true)
    }

    /// The key ID only selects the key; it does not prove the signer.
    @Test("a signature by an unknown key under the ID of a trusted key is refused")
    func aForeignSignatureUnderATrustedIDFails() throws {
        let bundle = try makeBundle(signedBy: [unknown])
        let forged = try #require(
            BundleSignature(.ed25519, keyID: trusted.publicKey.id, signature: bundle.envelope.signatures[0].signature))
        let envelope = try Envelope(manifest: bundle.envelope.manifest, signatures: [forged])
        #expect(throws: VerificationError(.badSignature, "")) {
            try verifier.verify(SignedBundle(envelope: envelope, image: bundle.image))
        }
    }

    @Test("an entry under a trusted key ID with an unknown algorithm is invalid, also with the signature of the key")
    func anUnknownAlgorithmUnderATrustedIDFails() throws {
        let bundle = try makeBundle(signedBy: [trusted])
        for algorithm: UInt8 in [0, 5, 255] {
            var bytes = bundle.envelope.bytes
            bytes[bundle.envelope.manifestBytes.count + 4] = algorithm
            let forged = try SignedBundle(envelope: Envelope(parsing: bytes), image: bundle.image)
            #expect(throws: VerificationError(.badSignature, "")) { try verifier.verify(forged) }
            let other = Verifier(trust: try TrustStore([alsoTrusted.publicKey]))
            #expect(throws: VerificationError(.untrustedKey, "")) { try other.verify(forged) }
        }
    }

    @Test("a signature over another manifest is refused")
    func aSignatureOverAnotherManifestFails() throws {
        let newer = try makeBundle(counter: 8, signedBy: [trusted])
        let older = try makeBundle(counter: 7, signedBy: [trusted])
        let envelope = try Envelope(manifest: newer.envelope.manifest, signatures: older.envelope.signatures)
        #expect(throws: VerificationError(.badSignature, "")) {
            try verifier.verify(SignedBundle(envelope: envelope, image: newer.image))
        }
    }

    // MARK: Scopes

    /// Returns a verifier that trusts the first key with the scope `text`, and with `also` the second key without a scope.
    private func limited(_ text: String = "product = demo", also: Bool = false) throws -> (Verifier, TemporaryFolder) {
        let folder = try TemporaryFolder()
        try folder.write("one.pub.pem", trusted.publicKey.pem().bytes)
        try folder.write("one.pub.pem.scope", text.utf8)
        if also { try folder.write("two.pub.pem", alsoTrusted.publicKey.pem().bytes) }
        return (Verifier(trust: try TrustStore(paths: [folder.path])), folder)
    }

    @Test("a key limited to a product can sign bundles of this product only")
    func aScopeLimitsAKey() throws {
        let (verifier, folder) = try limited()
        #expect(try verifier.verify(makeBundle(signedBy: [trusted])).signers == [trusted.publicKey.id])
        let other = try makeBundle(product: "toaster", signedBy: [trusted])
        let error = #expect(throws: VerificationError(.keyOutOfScope, "")) { try verifier.verify(other) }
        for word in ["\(trusted.publicKey.id)", "\(folder / "one.pub.pem.scope")", "bundles of demo", "toaster"] {
            #expect(error?.context.contains(word) == true, "\(word)")
        }
        let report = try #require(verifier.report(on: other.envelope).first)
        #expect(!report.trusted && report.valid == nil && report.isOutOfScope)
        let (images, _) = try limited("format = mcuboot")
        #expect(throws: VerificationError(.keyOutOfScope, "")) { try images.verify(makeBundle(signedBy: [trusted])) }
    }

    @Test("a signature by a key outside its scope is ignored, whether it is valid or not")
    func aKeyOutOfScopeDoesNotCount() throws {
        let (verifier, _) = try limited(also: true)
        let other = try makeBundle(product: "toaster", signedBy: [trusted, alsoTrusted])
        #expect(try verifier.verify(other).signers == [alsoTrusted.publicKey.id])
        #expect(try verifier.verify(other.spoiling(signatureBy: trusted)).signers == [alsoTrusted.publicKey.id])
        // Inside its scope, an invalid signature by the key makes the bundle invalid.
        let demo = try makeBundle(signedBy: [trusted, alsoTrusted]).spoiling(signatureBy: trusted)
        #expect(throws: VerificationError(.badSignature, "")) { try verifier.verify(demo) }
    }

    @Test("a forged signature of a key outside its scope is reported as invalid, not as out of scope")
    func aForgeryIsNoQuestionOfScope() throws {
        let (verifier, _) = try limited()
        let forged = try makeBundle(product: "toaster", signedBy: [trusted]).spoiling(signatureBy: trusted)
        #expect(throws: VerificationError(.badSignature, "")) { try verifier.verify(forged) }
    }

    @Test("an unknown field is refused only if it is critical")
    func unknownFieldsAreRefusedOnlyWhereTheyAreCritical() throws {
        let harmless = ManifestField(type: 0x0008, value: [1, 2, 3])
        let critical = ManifestField(type: 0x8007, value: [1])
        let bundle = try makeBundle(unknownFields: [harmless], signedBy: [trusted])
        #expect(try verifier.verify(bundle).manifest.unknownFields == [harmless])
        let error = #expect(throws: VerificationError(.unknownCriticalField, "")) {
            try verifier.verify(makeBundle(unknownFields: [harmless, critical], signedBy: [trusted]))
        }
        #expect(error?.context.contains("0x8007") == true)
    }

    @Test("the report contains the result of every signature, also for a refused bundle")
    func reportTellsOfEachSignatureWhetherAcceptedOrNot() throws {
        let bundle = try makeBundle(signedBy: [trusted, alsoTrusted, unknown]).spoiling(signatureBy: alsoTrusted)
        let reports = verifier.report(on: bundle.envelope)
        #expect(reports.map(\.keyID) == bundle.envelope.signatures.map(\.keyID))
        for report in reports {
            #expect(report.algorithm == .ed25519)
            switch report.keyID {
            case trusted.publicKey.id: #expect(report.trusted && report.valid == true)
            case alsoTrusted.publicKey.id: #expect(report.trusted && report.valid == false)
            default: #expect(!report.trusted && report.valid == nil)
            }
        }
    }

    @Test("an envelope with one flipped bit is refused, for every bit")
    func everyFlippedBitOfTheEnvelopeIsRefused() throws {
        for bit in 0..<(WorkedExample.envelope.count * 8) {
            var bytes = WorkedExample.bytes
            bytes[bit / 8] ^= 1 << (bit % 8)
            #expect(throws: (any Error).self, "bit \(bit)") { try verifier.verify(SignedBundle(parsing: bytes)) }
        }
    }

    @Test("a changed image is refused with digest-mismatch")
    func everyChangeOfTheImageIsRefused() throws {
        var random = SplitMix64(seed: 5)
        let bundle = try WorkedExample.bundle()
        for _ in 0..<2000 {
            var image = bundle.image
            let start = Int.random(in: 0..<image.count, using: &random)
            for place in start..<min(start + Int.random(in: 1...16, using: &random), image.count) {
                image[place] ^= UInt8.random(in: 1...255, using: &random)
            }
            let changed = try SignedBundle(envelope: bundle.envelope, image: image)
            #expect(throws: VerificationError(.digestMismatch, "")) { try verifier.verify(changed) }
        }
    }
}
