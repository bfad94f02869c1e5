import OTAFirmware
import OTASigning
import OTATestSupport
import OTAUpdate
import SystemPackage
import Testing

@Suite("Verification of MCUboot images") struct VerifierImageTests {
    private let key: PrivateKey
    private let verifier: Verifier

    init() throws {
        key = try SampleKey.key()
        verifier = try SampleKey.verifier()
    }

    private func small(_ scheme: MCUbootSigner.Scheme = .digest, counter: UInt32? = nil) throws -> ForgedImage {
        try ForgedImage(small: key, scheme, counter: counter)
    }

    private func refusal(_ bytes: [UInt8], _ verifier: Verifier? = nil) throws -> VerificationError? {
        let file = try MCUbootFile(parsing: bytes)
        return #expect(throws: VerificationError.self) { try (verifier ?? self.verifier).verify(file) }
    }

    @Test(
        "an image signed by imgtool is verified, and all its checks are reported as passed",
        arguments: ["acme-beacon-1.0.0.mcuboot.bin", "acme-beacon-1.1.0.mcuboot.bin"])
    func whatImgtoolSignedIsVerified(name: String) throws {
        let bytes = try Repository.sample(name)
        let image = try verifier.verify(MCUbootFile(parsing: bytes))
        #expect(image.authorization == .signature(key.publicKey.id))
        #expect(image.bytes == bytes && image.fileDigest == SHA256.digest(of: bytes))
        let report = try verifier.report(on: MCUbootFile(parsing: bytes))
        #expect(report.digest == "SHA256" && report.digestHolds == true && report.unsigned.isEmpty)
        #expect(report.signature?.holds == true && report.signature?.keyID == key.publicKey.id)
        #expect(report.signature?.keyHash == SHA256.digest(of: key.publicKey.subjectPublicKeyInfo).bytes)
    }

    @Test("an image of an untrusted key is refused, and its report has no key and no signature result")
    func aKeyHasToBeTrusted() throws {
        let stranger = try Verifier(trust: TrustStore([RFC8032.test1.privateKey().publicKey]))
        for verifier in [stranger, try Verifier(trust: TrustStore([]))] {
            #expect(try refusal(small().bytes, verifier)?.code == .untrustedKey)
            let report = try verifier.report(on: MCUbootFile(parsing: small().bytes))
            #expect(report.signature?.holds == nil && report.signature?.keyID == nil && report.digestHolds == true)
        }
    }

    /// The trailer is not signed, and it may mark the image as confirmed.
    @Test("padding and trailer after the image are not part of the verified bytes")
    func paddingAndTrailerAreNotSent() throws {
        let image = try small()
        let trailer = try #require(Hex.decode("01ffffffffffffff77c295f360d2ef7f3552500f2cb67980"))
        let padded = image.bytes + [UInt8](repeating: 0xFF, count: 500) + trailer
        #expect(try verifier.verify(MCUbootFile(parsing: padded)).bytes == image.bytes)
    }

    // MARK: Forged images

    @Test("an image with an invalid signature is refused")
    func aSignatureHasToHold() throws {
        var image = try small()
        image[MCUbootTLV.ed25519][5] ^= 1
        #expect(try refusal(image.bytes)?.code == .badSignature)
        image[MCUbootTLV.ed25519] = []
        #expect(try refusal(image.bytes)?.code == .badSignature)
        // The signature of another image by the same key.
        var other = try small(counter: 3)
        other[MCUbootTLV.ed25519] = try small()[MCUbootTLV.ed25519]
        #expect(try refusal(other.bytes)?.code == .badSignature)
        // A signature over the digest is not a signature over the image, and vice versa.
        var pure = try small()
        pure.plain.append(MCUbootTLV(type: MCUbootTLV.pureSignature, value: [1]))
        #expect(try refusal(pure.bytes)?.code == .badSignature)
        var digest = try small(.pure)
        digest.plain.removeAll { $0.type == MCUbootTLV.pureSignature }
        #expect(try refusal(digest.bytes)?.code == .badSignature)
    }

    @Test("an image signed by an untrusted key is refused, also if it contains this key or names a trusted one")
    func aForeignKey() throws {
        let foreign = try RFC8032.test1.privateKey()
        var image = try ForgedImage(small: foreign)
        #expect(try refusal(image.bytes)?.code == .untrustedKey)
        image.replace(
            MCUbootTLV.keyHash,
            with: MCUbootTLV(
                type: MCUbootTLV.publicKey, value: foreign.publicKey.subjectPublicKeyInfo))
        #expect(try refusal(image.bytes)?.code == .untrustedKey)
        image.plain.removeAll { $0.type == MCUbootTLV.publicKey }
        #expect(try refusal(image.bytes)?.code == .untrustedKey)
        image.plain.append(
            MCUbootTLV(type: MCUbootTLV.keyHash, value: SHA256.digest(of: key.publicKey.subjectPublicKeyInfo).bytes))
        #expect(try refusal(image.bytes)?.code == .badSignature)
    }

    @Test(
        "an image with a second digest, key, signature or SIG_PURE record is ambiguous",
        arguments: [
            MCUbootTLV.keyHash, MCUbootTLV.publicKey, MCUbootTLV.sha256, MCUbootTLV.sha512, MCUbootTLV.ed25519, 0x22,
            MCUbootTLV.pureSignature,
        ])
    func nothingIsThereTwice(type: UInt16) throws {
        let scheme: MCUbootSigner.Scheme = type == MCUbootTLV.pureSignature ? .pure : .digest
        let image = try small(scheme)
        let same = image.plain.first { $0.type == type }
        for value in [same?.value ?? [1], [UInt8](repeating: 1, count: same?.value.count ?? 32)] {
            for first in [false, true] {
                var forged = image
                forged.plain.insert(MCUbootTLV(type: type, value: value), at: first ? 0 : forged.plain.count)
                do {
                    let error = try refusal(forged.bytes)
                    #expect(error?.code == .ambiguousImage)
                    #expect(throws: VerificationError(.ambiguousImage, "")) {
                        try verifier.accept(MCUbootFile(parsing: forged.bytes))
                    }
                } catch is ImageError {
                    // The parser already refuses a second SHA-256 with a wrong value.
                    #expect(type == MCUbootTLV.sha256 && value != same?.value)
                }
            }
        }
    }

    @Test(
        "an image with a digest, key or signature record in the protected area is ambiguous",
        arguments: [MCUbootTLV.keyHash, MCUbootTLV.sha256, MCUbootTLV.ed25519, MCUbootTLV.pureSignature])
    func nothingAboutTheSignedBytesIsAmongThem(type: UInt16) throws {
        let image = try ForgedImage(small: key, protected: [MCUbootTLV(type: type, value: [1])])
        #expect(try refusal(image.bytes)?.code == .ambiguousImage)
    }

    @Test("an image with a SIG_PURE value other than 01 is ambiguous")
    func aStrangeMarkOfAPureSignature() throws {
        for value in [[], [0], [2], [1, 0]] as [[UInt8]] {
            var image = try small(.pure)
            image[MCUbootTLV.pureSignature] = value
            #expect(try refusal(image.bytes)?.code == .ambiguousImage)
        }
    }

    /// The parser, not the verifier, compares a SHA-256.
    @Test("every byte of a SHA-512 is compared")
    func comparesTheWholeDigest() throws {
        let image = try small(.pure)
        #expect(image[MCUbootTLV.sha512].count == 64)
        for index in image[MCUbootTLV.sha512].indices {
            var changed = image
            changed[MCUbootTLV.sha512][index] ^= 1
            #expect(try refusal(changed.bytes)?.code == .digestMismatch, "byte \(index)")
        }
    }

    @Test("a signature of another algorithm is refused, even if it is as long as an Ed25519 signature")
    func aSignatureOfAnotherAlgorithm() throws {
        for (type, code) in [(0x21, .unsupportedSignature), (0x22, .badSignature), (0x23, .badSignature)]
            as [(UInt16, VerificationError.Code)]
        {
            var image = try small()
            image.replace(MCUbootTLV.ed25519, with: MCUbootTLV(type: type, value: image[MCUbootTLV.ed25519]))
            #expect(try refusal(image.bytes)?.code == code)
        }
    }

    @Test("a wrong SHA-512 is refused, and a signature over a missing digest is refused")
    func otherDigestsAreChecked() throws {
        var image = try small(.pure)
        #expect(try verifier.verify(MCUbootFile(parsing: image.bytes)).image.digest == nil)
        image[MCUbootTLV.sha512][0] ^= 1
        #expect(try refusal(image.bytes)?.code == .digestMismatch)
        // A pure signature needs no digest. A signature over a digest needs it.
        image.plain.removeAll { $0.type == MCUbootTLV.sha512 }
        #expect(try verifier.verify(MCUbootFile(parsing: image.bytes)).authorization == .signature(key.publicKey.id))
        var bare = try small()
        bare.plain.removeAll { $0.type == MCUbootTLV.sha256 }
        #expect(try refusal(bare.bytes)?.code == .noDigest)
    }

    // MARK: Consent

    private func consent(_ bytes: [UInt8]) throws -> VerificationError.Code? {
        guard case .consent(let consent) = try verifier.accept(MCUbootFile(parsing: bytes)).authorization else {
            return nil
        }
        return consent.reason
    }

    @Test("consent accepts images that are unsigned, encrypted, or signed by an untrusted key or algorithm")
    func consentTakesWhatNobodyAnswersFor() throws {
        #expect(try consent(ForgedImage(small: RFC8032.test1.privateKey()).bytes) == .untrustedKey)
        var image = try small()
        #expect(try consent(image.bytes) == nil)
        image.replace(MCUbootTLV.ed25519, with: MCUbootTLV(type: 0x21, value: [1, 2, 3]))
        #expect(try refusal(image.bytes)?.code == .unsupportedSignature)
        #expect(try consent(image.bytes) == .unsupportedSignature)
        image.plain.removeLast()
        #expect(try refusal(image.bytes)?.code == .notSigned)
        #expect(try consent(image.bytes) == .notSigned)
        let encrypted = try small().changing(8 + 8, to: 4)
        #expect(try refusal(encrypted)?.code == .encryptedImage)
        #expect(try consent(encrypted) == .encryptedImage)
    }

    @Test("consent does not accept a damaged image, an invalid signature or a missing digest")
    func consentTakesNothingThatIsBroken() throws {
        var image = try small()
        image[MCUbootTLV.ed25519][0] ^= 1
        #expect(throws: VerificationError(.badSignature, "")) { try consent(image.bytes) }
        image.plain = []
        #expect(throws: VerificationError(.noDigest, "")) { try consent(image.bytes) }
        var pure = try small(.pure)
        pure[MCUbootTLV.sha512][0] ^= 1
        #expect(throws: VerificationError(.digestMismatch, "")) { try consent(pure.bytes) }
        let bytes = try small().bytes
        #expect(throws: ImageError.self) { try consent(Array(bytes.dropLast())) }
    }

    @Test("consent does not override the minimum security counter of the policy")
    func consentIsNoWayAroundThePolicy() throws {
        let unsigned = try ForgedImage(small: RFC8032.test1.privateKey()).bytes
        let policy = TrustPolicy(minimumSecurityCounter: 1)
        #expect(throws: VerificationError(.counterTooLow, "")) {
            try SampleKey.verifier(policy).accept(MCUbootFile(parsing: unsigned))
        }
    }

    // MARK: Policy

    @Test("an image below the minimum counter, or with a policy for a product or hardware, is refused")
    func whatAnImageDoesNotSayIsRefusedWhereItIsAsked() throws {
        let bytes = try small(counter: 4).bytes
        for counter in [0, 4] as [UInt32] {
            let verifier = try SampleKey.verifier(TrustPolicy(minimumSecurityCounter: counter))
            #expect(try verifier.verify(MCUbootFile(parsing: bytes)).image.securityCounter == 4)
        }
        #expect(try refusal(bytes, SampleKey.verifier(TrustPolicy(minimumSecurityCounter: 5)))?.code == .counterTooLow)
        #expect(
            try refusal(bytes, SampleKey.verifier(TrustPolicy(product: ProductName("demo"))))?.code == .wrongProduct)
        #expect(try refusal(bytes, SampleKey.verifier(TrustPolicy(hardware: 1)))?.code == .wrongHardware)
    }

    @Test("an image signed by the demo key is refused unless the policy allows the demo key")
    func theDemoKeyHasToBeAllowed() throws {
        let demo = try PrivateKey(
            pem: SecretBytes(copying: contents(of: Repository.keys.appending("otaflash-demo.pem"))))
        let bytes = try ForgedImage(small: demo).bytes
        let store = try TrustStore([demo.publicKey])
        #expect(try refusal(bytes, Verifier(trust: store))?.code == .demoKey)
        let allowing = Verifier(trust: store, policy: TrustPolicy(allowsDemoKey: true))
        #expect(try allowing.verify(MCUbootFile(parsing: bytes)).authorization == .signature(demo.publicKey.id))
    }

    @Test(
        "a key limited to bundles or to products cannot sign MCUboot images",
        arguments: [("format = bundle", false), ("product = demo", false), ("format = mcuboot", true)])
    func aScopeLimitsAKey(text: String, isAccepted: Bool) throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("k.pub.pem", key.publicKey.pem().bytes)
        try folder.write("k.pub.pem.scope", text.utf8)
        let limited = Verifier(trust: try TrustStore(paths: [file]))
        let image = try MCUbootFile(parsing: small().bytes)
        let signature = try #require(limited.report(on: image).signature)
        guard !isAccepted else {
            #expect(try limited.verify(image).authorization == .signature(key.publicKey.id))
            #expect(signature.holds == true && signature.keyID == key.publicKey.id && !signature.isOutOfScope)
            return
        }
        let error = #expect(throws: VerificationError(.keyOutOfScope, "")) { try limited.verify(image) }
        #expect(error?.context.contains("k.pub.pem.scope limits it to bundles") == true)
        #expect(signature.holds == nil && signature.keyID == nil && signature.isOutOfScope)
        // The scope is the user's own rule, so consent does not lift it.
        #expect(throws: VerificationError(.keyOutOfScope, "")) { try limited.accept(image) }
        var forged = try small()
        forged[MCUbootTLV.ed25519][40] ^= 1
        #expect(throws: VerificationError(.badSignature, "")) { try limited.accept(MCUbootFile(parsing: forged.bytes)) }
    }

    // MARK: Images in bundles

    @Test("an image in a bundle is authorized by the signers of the bundle")
    func aBundleAnswersForItsImage() throws {
        let bundle = try verifier.verify(
            makeBundle(image: ForgedImage(small: RFC8032.test1.privateKey()).bytes, signedBy: [key]))
        let image = try bundle.mcubootImage()
        #expect(image.authorization == .bundle([key.publicKey.id]))
        #expect(image.manifest == bundle.manifest)
        let raw = try verifier.verify(makeBundle(image: [1, 2, 3], signedBy: [key]))
        #expect(throws: ImageError.self) { try raw.mcubootImage() }
    }
}
