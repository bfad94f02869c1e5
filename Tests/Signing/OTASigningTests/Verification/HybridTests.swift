import OTAFirmware
import OTASigning
import OTATestSupport
import OTAUpdate
import SystemPackage
import Testing

/// The trust folder and the keys of two people. Each person has an Ed25519 key and an ML-DSA key, which are a pair.
private struct HybridPeople {
    let classic, lattice: PrivateKey
    let otherClassic, otherLattice: PrivateKey
    let folder: TemporaryFolder

    init(pairs: Bool = true, policy: String? = nil) throws {
        classic = try RFC8032.test1.privateKey()
        otherClassic = try RFC8032.test2.privateKey()
        lattice = try MLDSA.privateKey(.mlDSA65, seed: [UInt8](repeating: 1, count: 32))
        otherLattice = try MLDSA.privateKey(.mlDSA44, seed: [UInt8](repeating: 2, count: 32))
        folder = try TemporaryFolder()
        try add(classic, "a", partner: pairs ? lattice : nil)
        try add(lattice, "a.ml-dsa-65", partner: pairs ? classic : nil)
        try add(otherClassic, "b", partner: pairs ? otherLattice : nil)
        try add(otherLattice, "b.ml-dsa-44", partner: pairs ? otherClassic : nil)
        if let policy { try folder.write("trust.policy", policy.utf8) }
    }

    private func add(_ key: PrivateKey, _ name: String, partner: PrivateKey?) throws {
        try folder.write("\(name).pub.pem", key.publicKey.pem().bytes)
        if let partner { try folder.write("\(name).pub.pem.scope", "with = \(partner.publicKey.id)\n".utf8) }
    }

    func verifier(_ policy: TrustPolicy = TrustPolicy()) throws -> Verifier {
        Verifier(trust: try TrustStore(paths: [folder.path]), policy: policy)
    }
}

@Suite("Bundles with a pair of keys", .enabled(if: MLDSA.isAvailable, "libcrypto is older than OpenSSL 3.5"))
struct HybridTests {
    private let people: HybridPeople
    private let bundle: SignedBundle

    init() throws {
        people = try HybridPeople()
        bundle = try makeBundle(signedBy: [people.classic, people.lattice])
    }

    private func changed(_ entries: [BundleSignature]) throws -> SignedBundle {
        try SignedBundle(
            envelope: Envelope(manifest: bundle.envelope.manifest, signatures: entries), image: bundle.image)
    }

    private func entry(_ key: PrivateKey) throws -> BundleSignature {
        try #require(bundle.envelope.signatures.first { $0.keyID == key.publicKey.id })
    }

    @Test("a bundle that both keys of a pair signed is accepted, and counts as one person")
    func accepted() throws {
        let verified = try people.verifier().verify(bundle)
        #expect(Set(verified.signers) == [people.classic.publicKey.id, people.lattice.publicKey.id])
        #expect(verified.signerCount.signers == 1)
        #expect(verified.signerCount.explanation == "1 Ed25519, 1 ML-DSA-65")
        #expect(verified.envelope.length == 89 + 4 + 76 + 12 + 3309)
    }

    @Test("a bundle with only one key of a pair is refused, and the message names both keys")
    func missing() throws {
        let verifier = try people.verifier()
        for (key, partner) in [(people.classic, people.lattice), (people.lattice, people.classic)] {
            let half = try changed([entry(key)])
            let error = #expect(throws: VerificationError(.partnerMissing, "")) { try verifier.verify(half) }
            for id in [key.publicKey.id, partner.publicKey.id] {
                #expect(error?.context.contains("\(id)") == true, "\(error?.context ?? "")")
            }
            let report = try #require(verifier.report(on: half.envelope).first)
            #expect(report.valid == true && report.missingPartner == partner.publicKey.id)
        }
    }

    @Test("the keys of two people do not complete each other's pairs")
    func mixedPairs() throws {
        let verifier = try people.verifier()
        for keys in [[people.classic, people.otherLattice], [people.otherClassic, people.lattice]] {
            #expect(throws: VerificationError(.partnerMissing, "")) { try verifier.verify(makeBundle(signedBy: keys)) }
        }
        for keys in [[people.classic, people.otherClassic], [people.lattice, people.otherLattice]] {
            #expect(throws: VerificationError(.partnerMissing, "")) { try verifier.verify(makeBundle(signedBy: keys)) }
        }
    }

    @Test("an incomplete pair beside a complete one does not count")
    func incompletePair() throws {
        let three = try makeBundle(signedBy: [people.classic, people.lattice, people.otherClassic])
        let verified = try people.verifier().verify(three)
        #expect(Set(verified.signers) == [people.classic.publicKey.id, people.lattice.publicKey.id])
        #expect(verified.signerCount.signers == 1)
        let error = #expect(throws: VerificationError(.tooFewSignatures, "")) {
            try people.verifier(TrustPolicy(minimumSigners: 2)).verify(three)
        }
        #expect(
            error?.context
                == "signed by 1 of the 2 required trusted keys (the keys of each algorithm are counted: 1 Ed25519, 1 ML-DSA-65)"
        )
    }

    @Test("two pairs are two people")
    func twoPeople() throws {
        let keys = [people.classic, people.lattice, people.otherClassic, people.otherLattice]
        let verified = try people.verifier(TrustPolicy(minimumSigners: 2)).verify(makeBundle(signedBy: keys))
        #expect(verified.signerCount.signers == 2)
        #expect(verified.signerCount.explanation == "2 Ed25519, 1 ML-DSA-44, 1 ML-DSA-65")
        #expect(throws: VerificationError(.tooFewSignatures, "")) {
            try people.verifier(TrustPolicy(minimumSigners: 3)).verify(makeBundle(signedBy: keys))
        }
    }

    @Test("one Ed25519 and one ML-DSA key without a pair do not count as two people, also for a policy of the folder")
    func unpaired() throws {
        let people = try HybridPeople(pairs: false, policy: "signatures = 2")
        let mixed = try makeBundle(signedBy: [people.classic, people.otherLattice])
        let error = #expect(throws: VerificationError(.tooFewSignatures, "")) { try people.verifier().verify(mixed) }
        #expect(error?.context.hasSuffix("(the keys of each algorithm are counted: 1 Ed25519, 1 ML-DSA-44)") == true)
        let classics = try makeBundle(signedBy: [people.classic, people.otherClassic])
        #expect(try people.verifier().verify(classics).signerCount.signers == 2)
        // Each pair of algorithms counts on its own: two ML-DSA keys of different parameter sets are not two people.
        #expect(throws: VerificationError(.tooFewSignatures, "")) {
            try people.verifier().verify(makeBundle(signedBy: [people.lattice, people.otherLattice]))
        }
    }

    @Test("an invalid signature by one key of a pair makes the bundle invalid beside a valid one")
    func invalid() throws {
        let verifier = try people.verifier()
        for key in [people.classic, people.lattice] {
            let forged = try bundle.spoiling(signatureBy: key)
            let error = #expect(throws: VerificationError(.badSignature, "")) { try verifier.verify(forged) }
            #expect(error?.context.contains("\(key.publicKey.id)") == true)
            #expect(throws: VerificationError(.badSignature, "")) {
                try verifier.verify(changed([forged.envelope.signatures[0], forged.envelope.signatures[1]]))
            }
        }
    }

    @Test("an ML-DSA signature with another context, or of an attestation, is invalid in a bundle")
    func otherContext() throws {
        let manifest = bundle.envelope.manifest
        for domain in [SignatureDomain.none, SignatureDomain(context: Array("otaflash-bundl".utf8))] {
            let wrong = try #require(
                BundleSignature(
                    .mlDSA65, keyID: people.lattice.publicKey.id,
                    signature: people.lattice.sign(manifest.bytes, in: domain)))
            #expect(throws: VerificationError(.badSignature, "")) {
                try people.verifier().verify(changed([entry(people.classic), wrong]))
            }
        }
    }

    @Test("entries with swapped key IDs, and an entry of another algorithm under a trusted ID, are invalid")
    func swapped() throws {
        let (classic, lattice) = (try entry(people.classic), try entry(people.lattice))
        let verifier = try people.verifier()
        let asClassic = try #require(
            BundleSignature(.mlDSA65, keyID: classic.keyID, signature: lattice.signature))
        let asLattice = try #require(
            BundleSignature(.ed25519, keyID: lattice.keyID, signature: classic.signature))
        for entries in [
            [asClassic, asLattice], [classic, asLattice], [asClassic, lattice], [asClassic], [asLattice],
        ] {
            #expect(throws: VerificationError(.badSignature, "")) { try verifier.verify(changed(entries)) }
        }
        // A second ML-DSA algorithm: the signature has another length.
        let other = try #require(
            BundleSignature(.mlDSA44, keyID: lattice.keyID, signature: [UInt8](repeating: 1, count: 2420)))
        #expect(throws: VerificationError(.badSignature, "")) { try verifier.verify(changed([classic, other])) }
        // An unknown algorithm under a trusted ID is refused, and under an unknown ID it is ignored.
        let last = try #require(KeyID(bytes: [UInt8](repeating: 0xff, count: 8)))
        for (id, code) in [(lattice.keyID, VerificationError.Code.badSignature), (last, .partnerMissing)] {
            let bytes =
                bundle.envelope.manifestBytes + [2, 0, 0, 0]
                + (try changed([classic]).envelope.bytes.dropFirst(bundle.envelope.manifestBytes.count + 4))
            let unknown = bytes + [9, 0, 1, 0] + id.bytes + [7]
            guard classic.keyID < id else { continue }
            let forged = try SignedBundle(envelope: Envelope(parsing: unknown), image: bundle.image)
            #expect(throws: VerificationError(code, "")) { try verifier.verify(forged) }
        }
    }

    @Test("a repeated entry is refused by the parser")
    func repeated() throws {
        #expect(throws: BundleError.self) { try changed([entry(people.classic), entry(people.classic)]) }
        #expect(throws: BundleError.self) {
            try changed([entry(people.classic), entry(people.lattice), entry(people.lattice)])
        }
    }

    @Test("a hybrid envelope with one flipped bit is refused, for every bit of the manifest and of the entries")
    func everyBit() throws {
        let verifier = try people.verifier()
        let bytes = bundle.envelope.bytes
        let lattice = try #require(bytes.firstRange(of: try entry(people.lattice).signature))
        // Every bit outside the ML-DSA signature, and one bit of each byte in it: each verification takes 0.1 ms.
        for index in bytes.indices {
            for bit in lattice.contains(index) ? [index % 8...index % 8] : [0...7] {
                for bit in bit {
                    var forged = bytes
                    forged[index] ^= 1 << UInt8(bit)
                    guard let envelope = try? Envelope(parsing: forged),
                        let changed = try? SignedBundle(envelope: envelope, image: bundle.image)
                    else { continue }
                    let error = #expect(throws: VerificationError.self, "byte \(index), bit \(bit)") {
                        try verifier.verify(changed)
                    }
                    let expected: [VerificationError.Code?] = [.badSignature, .partnerMissing, .unknownCriticalField]
                    #expect(expected.contains(error?.code), "byte \(index), bit \(bit)")
                }
            }
        }
    }

    @Test("a scope that excludes the product from one key of a pair makes the other one incomplete")
    func scopes() throws {
        let text = "product = toaster\nwith = \(people.classic.publicKey.id)\n"
        try people.folder.write("a.ml-dsa-65.pub.pem.scope", text.utf8)
        let error = #expect(throws: VerificationError(.partnerMissing, "")) { try people.verifier().verify(bundle) }
        #expect(error?.context.contains("\(people.classic.publicKey.id)") == true)
    }

    @Test("a key of a pair does not authorize an MCUboot image, which has one signature")
    func images() throws {
        var layout = MCUbootLayout(version: try mcubootVersion("1.0.0"), headerSize: 32)
        layout.padsHeader = true
        let image = try MCUbootFile(parsing: MCUbootSigner(key: people.classic).sign(Array(0..<64), as: layout))
        #expect(throws: VerificationError(.keyOutOfScope, "")) { try people.verifier().verify(image) }
        #expect(throws: VerificationError(.keyOutOfScope, "")) { try people.verifier().accept(image) }
    }

    @Test("an attestation needs the signatures of both keys of a pair")
    func attestations() throws {
        let verified = try people.verifier().verify(bundle)
        let statement = Statement(
            subjects: bundle.subjects(named: "fw.otaf"), predicateType: "https://example.org/x", predicate: .object([]))
        func file(_ keys: [PrivateKey]) throws -> AttestationFile {
            try AttestationFile(parsing: AttestationEnvelope(signing: statement, with: keys).line)
        }
        let both = try people.verifier().verify(file([people.classic, people.lattice]), of: verified)
        #expect(both.first?.signers.count == 2)
        for keys in [[people.classic], [people.lattice], [people.classic, people.otherLattice]] {
            let error = #expect(throws: AttestationError(.untrusted, "")) {
                try people.verifier().verify(file(keys), of: verified)
            }
            #expect(error?.context.contains("counts only together with the key") == true)
        }
    }

    @Test("two runs of the signer create the same bytes, and openssl verifies each entry")
    func signs() async throws {
        let image = try people.folder.write("image", WorkedExample.image)
        let release = Release(product: ProductName("demo"), version: SemanticVersion("1.1.0"))
        for name in ["one", "two"] {
            _ = try BundleSigner(keys: [people.classic, people.lattice]).sign(
                image, as: release, created: 1, to: people.folder / name)
        }
        let bytes = try contents(of: people.folder / "one")
        #expect(try contents(of: people.folder / "two") == bytes)
        let envelope = try SignedBundle(parsing: bytes).envelope
        for (key, options) in [(people.classic, []), (people.lattice, ["-pkeyopt", "context-string:otaflash-bundle"])] {
            let entry = try #require(envelope.signatures.first { $0.keyID == key.publicKey.id })
            let paths = try [
                people.folder.write("m", envelope.manifestBytes), people.folder.write("s", entry.signature),
                people.folder.write("k", key.publicKey.pem().bytes),
            ]
            try await OpenSSLCommand.run(
                ["pkeyutl", "-verify", "-rawin", "-pubin", "-in", paths[0].string, "-sigfile", paths[1].string]
                    + ["-inkey", paths[2].string] + options)
        }
    }
}
