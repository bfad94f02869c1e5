import OTAFirmware
import OTASigning
import SystemPackage
import Testing

/// These tests need no libcrypto with ML-DSA.
@Suite("Pairs of trusted keys") struct KeyPairTests {
    private let classic: PublicKey
    private let lattice: PublicKey
    private let folder: TemporaryFolder

    init() throws {
        classic = try RFC8032.test1.privateKey().publicKey
        lattice = try MLDSA.publicKey(7)
        folder = try TemporaryFolder()
        try folder.write("a.pub.pem", classic.pem().bytes)
        try folder.write("b.pub.pem", lattice.pem().bytes)
        try scope("a", "with = \(lattice.id)")
        try scope("b", "with = \(classic.id)")
    }

    private func scope(_ name: String, _ text: String?) throws {
        if let text {
            try folder.write("\(name).pub.pem.scope", text.utf8)
        } else {
            try folder.remove("\(name).pub.pem.scope")
        }
    }

    private func refusal(_ paths: [FilePath]? = nil) -> KeyError? {
        #expect(throws: KeyError(.badTrustScope, "")) { try TrustStore(paths: paths ?? [folder.path]) }
    }

    @Test("two keys that name each other are a pair")
    func pair() throws {
        let store = try TrustStore(paths: [folder.path])
        #expect(store.keys.count == 2)
        #expect(store.scope(of: classic.id)?.partner == lattice.id)
        #expect(store.scope(of: classic.id)?.coversImages == false)
        #expect(store.scope(of: classic.id)?.description == "bundles that the key \(lattice.id) has signed, too")
        let files = try TrustStore(paths: [folder / "a.pub.pem", folder / "b.pub.pem"], filesAreChosen: true)
        #expect(files.scope(of: lattice.id)?.partner == classic.id)
    }

    @Test("a bundle, an attestation and an MCUboot image with the signature of one key of a pair are refused")
    func onlyOneSignature() throws {
        let key = try RFC8032.test1.privateKey()
        let store = try TrustStore(paths: [folder.path])
        let bundle = try makeBundle(signedBy: [key])
        let error = #expect(throws: VerificationError(.partnerMissing, "")) {
            try Verifier(trust: store).verify(bundle)
        }
        #expect(
            error?.context.contains(
                "signed by the trusted key \(classic.id), which counts only together with the key \(lattice.id)")
                == true)
        #expect(error?.context.contains("\(folder / "a.pub.pem.scope")") == true)
        let report = try #require(Verifier(trust: store).report(on: bundle.envelope).first)
        #expect(report.valid == true && report.missingPartner == lattice.id)

        let verified = try Verifier(trust: TrustStore([classic])).verify(bundle)
        let statement = Statement(
            subjects: bundle.subjects(named: "fw.otaf"), predicateType: "https://example.org/x", predicate: .object([]))
        let file = try AttestationFile(parsing: AttestationEnvelope(signing: statement, with: [key]).line)
        #expect(try Verifier(trust: TrustStore([classic])).verify(file, of: verified).first?.signers == [classic.id])
        #expect(throws: AttestationError(.untrusted, "")) { try Verifier(trust: store).verify(file, of: verified) }

        let image = try MCUbootFile(parsing: ForgedImage(small: key).bytes)
        #expect(throws: VerificationError(.keyOutOfScope, "")) { try Verifier(trust: store).verify(image) }
        #expect(throws: VerificationError(.keyOutOfScope, "")) { try Verifier(trust: store).accept(image) }
    }

    @Test("an incomplete pair beside another trusted key does not count")
    func incompletePair() throws {
        let other = try RFC8032.test2.privateKey()
        try folder.write("c.pub.pem", other.publicKey.pem().bytes)
        let bundle = try makeBundle(signedBy: [RFC8032.test1.privateKey(), other])
        let store = try TrustStore(paths: [folder.path])
        let verified = try Verifier(trust: store).verify(bundle)
        #expect(verified.signers == [other.publicKey.id])
        #expect(throws: VerificationError(.tooFewSignatures, "")) {
            try Verifier(trust: store, policy: TrustPolicy(minimumSigners: 2)).verify(bundle)
        }
    }

    @Test("signers are counted per algorithm, and the largest number counts")
    func counting() throws {
        let classics = try RFC8032.all.prefix(3).map { try ImagePublicKey(PublicKey(bytes: $0.publicKey)) }
        let lattices = try [MLDSA.publicKey(1), MLDSA.publicKey(2), MLDSA.publicKey(3, .mlDSA44)].map {
            ImagePublicKey($0)
        }
        #expect(SignerCount([]).signers == 0)
        #expect(SignerCount(classics).signers == 3 && SignerCount(classics).explanation == nil)
        #expect(SignerCount([classics[0], lattices[0]]).signers == 1)
        #expect(SignerCount(classics[..<2] + lattices).signers == 2)
        #expect(SignerCount(classics[..<1] + lattices).explanation == "1 Ed25519, 1 ML-DSA-44, 2 ML-DSA-65")
        #expect(SignerCount(lattices).signers == 2)
    }

    @Test("a lost key file or scope file of a pair is an error, and never a key that counts alone")
    func lostFiles() throws {
        for paths in [[folder / "a.pub.pem"], [folder / "b.pub.pem"]] {
            let error = refusal(paths)
            #expect(error?.context.contains("which is not a trusted key") == true)
            #expect(error?.hint?.hasPrefix("trust the public key ") == true)
        }
        try scope("a", nil)
        let error = refusal()
        #expect(error?.context.contains("\(folder / "b.pub.pem.scope")") == true)
        #expect(error?.hint == "add the line 'with = \(lattice.id)' to \(folder / "a.pub.pem.scope")")
        try scope("a", "with = \(lattice.id)")
        try scope("b", "product = demo")
        #expect(refusal()?.context.contains("the scope of \(lattice.id) does not name \(classic.id)") == true)
        try scope("b", nil)
        #expect(refusal()?.context.contains("\(folder / "a.pub.pem.scope")") == true)
    }

    @Test("two keys cannot share a partner, because it would complete two people")
    func sharedPartner() throws {
        try folder.write("c.pub.pem", RFC8032.test2.privateKey().publicKey.pem().bytes)
        try scope("c", "with = \(lattice.id)")
        #expect(refusal()?.context.contains("does not name \(try RFC8032.test2.privateKey().publicKey.id)") == true)
    }

    @Test("the keys of a pair have different algorithms, and sign bundles")
    func algorithms() async throws {
        try folder.write("b.pub.pem", RFC8032.test2.privateKey().publicKey.pem().bytes)
        try scope("a", "with = \(RFC8032.test2.privateKey().publicKey.id)")
        #expect(refusal()?.context.contains("of different algorithms") == true)
        let rsa = try await OpenSSLKeys.pair("rsa:2048").publicKey
        try folder.write("b.pub.pem", rsa)
        try scope("a", "with = \(ImagePublicKey(pem: SecretBytes(copying: rsa)).id)")
        // The store checks the keys in the order of their IDs, and the ID of the RSA key is random.
        try scope("b", nil)
        #expect(refusal()?.context.contains("which is not a trusted key for bundles") == true)
        try scope("b", "with = \(classic.id)")
        try folder.write("b.pub.pem", lattice.pem().bytes)
        try scope("a", "with = \(classic.id)")
        #expect(refusal()?.context.contains("of different algorithms") == true)
    }

    @Test(
        "a line 'with' has one key ID",
        arguments: [
            "with = ", "with = 0123456789abcde", "with = 0123456789abcdefg",
            "with = 0123456789abcdef, 0123456789abcdee",
            "with 0123456789abcdef", "with = 0123456789abcdef\nwith = 0123456789abcdef",
            "with = 0123456789abcdef\nformat = mcuboot", "with = 0123456789abcdef\nformat = mcuboot, bundle",
        ])
    func lines(_ text: String) throws {
        #expect(throws: KeyError(.badTrustScope, "")) {
            try TrustScope(parsing: Array(text.utf8), of: "x.pub.pem.scope")
        }
    }

    @Test("a trusted ML-DSA key does not verify an MCUboot image that names it")
    func images() throws {
        var image = try ForgedImage(small: RFC8032.test1.privateKey())
        image[MCUbootTLV.keyHash] = SHA256.digest(of: lattice.subjectPublicKeyInfo).bytes
        let verifier = Verifier(trust: try TrustStore([lattice]))
        let error = #expect(throws: VerificationError(.badSignature, "")) {
            try verifier.verify(MCUbootFile(parsing: image.bytes))
        }
        #expect(error?.context.contains("is for ML-DSA-65") == true)
    }
}
