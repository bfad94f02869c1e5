import OTAFirmware
import OTASigning
import SystemPackage
import Testing

/// Forged images of each algorithm.
@Suite("Forged MCUboot images with ECDSA and RSA signatures") struct ImageSignatureTests {
    private static let kinds: [ImageKeyKind] = [.ecdsaP256, .rsa2048, .rsa3072]

    private static func type(_ kind: ImageKeyKind) -> UInt16 {
        switch kind {
        case .ed25519: MCUbootTLV.ed25519
        case .ecdsaP256: MCUbootTLV.ecdsa
        case .rsa2048: MCUbootTLV.rsa2048
        case .rsa3072: MCUbootTLV.rsa3072
        }
    }

    private func image(_ key: ImagePrivateKey, counter: UInt32? = nil) throws -> ForgedImage {
        try ForgedImage(small: key, counter: counter)
    }

    private func verifier(_ keys: ImagePrivateKey...) throws -> Verifier {
        Verifier(trust: try TrustStore(imageKeys: keys.map(\.publicKey)))
    }

    private func refusal(_ bytes: [UInt8], _ verifier: Verifier) throws -> VerificationError? {
        let file = try MCUbootFile(parsing: bytes)
        return #expect(throws: VerificationError.self) { try verifier.verify(file) }
    }

    @Test("one flipped bit in any byte of the signature is refused, and consent does not accept it", arguments: kinds)
    func everyByteOfTheSignatureCounts(kind: ImageKeyKind) async throws {
        let key = try await OpenSSLKeys.key(kind)
        let verifier = try verifier(key)
        let image = try image(key)
        #expect(try verifier.verify(MCUbootFile(parsing: image.bytes)).authorization == .signature(key.publicKey.id))
        let type = Self.type(kind)
        for index in image[type].indices {
            var forged = image
            forged[type][index] ^= 1 << UInt8(index % 8)
            #expect(try refusal(forged.bytes, verifier)?.code == .badSignature, "byte \(index)")
        }
        var forged = image
        forged[type][9] ^= 1
        #expect(throws: VerificationError(.badSignature, "")) {
            try verifier.accept(MCUbootFile(parsing: forged.bytes))
        }
        for value in [
            [], [0], [0x30], [UInt8](repeating: 0, count: 72), [UInt8](repeating: 0, count: image[type].count),
        ] {
            forged[type] = value
            #expect(try refusal(forged.bytes, verifier)?.code == .badSignature, "\(value.count) bytes")
        }
    }

    @Test("one flipped bit in header, body, protected TLVs, digest or key hash is refused", arguments: kinds)
    func everyPartIsChecked(kind: ImageKeyKind) async throws {
        let key = try await OpenSSLKeys.key(kind)
        let verifier = try verifier(key)
        let image = try image(key, counter: 9)
        // In the header: the version. Then the body, and the counter in the protected TLVs.
        for offset in [20, 40, image.signed.count - 1] {
            let bytes = image.changing(offset, to: image.bytes[offset] ^ 1)
            #expect(throws: ImageError.self) { try MCUbootFile(parsing: bytes) }
            // The same with a matching digest: only the signature differs.
            var forged = ForgedImage(signed: Array(bytes.prefix(image.signed.count)), plain: image.plain)
            forged[MCUbootTLV.sha256] = SHA256.digest(of: forged.signed).bytes
            #expect(try refusal(forged.bytes, verifier)?.code == .badSignature, "offset \(offset)")
        }
        var forged = image
        forged[MCUbootTLV.keyHash][31] ^= 1
        #expect(try refusal(forged.bytes, verifier)?.code == .untrustedKey)
        forged = image
        forged.plain.removeAll { $0.type == MCUbootTLV.sha256 }
        #expect(try refusal(forged.bytes, verifier)?.code == .noDigest)
    }

    @Test("a signature by another key of the same algorithm is refused", arguments: kinds)
    func aSignatureOfAnotherKey(kind: ImageKeyKind) async throws {
        let (key, other) = (try await OpenSSLKeys.key(kind), try await OpenSSLKeys.key(kind))
        let verifier = try verifier(key)
        var image = try image(key)
        let foreign = try self.image(other)
        #expect(try refusal(foreign.bytes, verifier)?.code == .untrustedKey)
        image[Self.type(kind)] = foreign[Self.type(kind)]
        #expect(try refusal(image.bytes, verifier)?.code == .badSignature)
        // The whole foreign public key in the image does not make it trusted.
        var full = foreign
        full.replace(MCUbootTLV.keyHash, with: MCUbootTLV(type: MCUbootTLV.publicKey, value: other.publicKey.encoded))
        #expect(try refusal(full.bytes, verifier)?.code == .untrustedKey)
        #expect(
            try self.verifier(other).verify(MCUbootFile(parsing: full.bytes)).authorization
                == .signature(other.publicKey.id))
    }

    @Test("a signature TLV of another algorithm than the named key is refused", arguments: ImageKeyKind.allCases)
    func aSignatureOfAnotherAlgorithm(kind: ImageKeyKind) async throws {
        let key = try await OpenSSLKeys.key(kind)
        let verifier = try verifier(key)
        let image = try image(key)
        for other in ImageKeyKind.allCases where other != kind {
            let type = Self.type(other)
            var forged = image
            forged.replace(Self.type(kind), with: MCUbootTLV(type: type, value: image[Self.type(kind)]))
            let error = try refusal(forged.bytes, verifier)
            #expect(error?.code == .badSignature && error?.context.contains(other.algorithm.name) == true)
            // The valid signature of a trusted key under the name of another trusted key.
            let stranger = try await OpenSSLKeys.key(other)
            forged[type] = try self.image(stranger)[type]
            let both = Verifier(trust: try TrustStore(imageKeys: [key.publicKey, stranger.publicKey]))
            #expect(try refusal(forged.bytes, both)?.code == .badSignature)
        }
    }

    @Test("a combination of algorithm and digest that MCUboot does not have is refused by name")
    func combinationsThatMCUbootDoesNotHave() async throws {
        for kind in ImageKeyKind.allCases {
            let key = try await OpenSSLKeys.key(kind)
            let verifier = try verifier(key)
            let image = try image(key)
            var other = image
            let digest = try await OpenSSLCommand.run("dgst", "-sha384", "-binary", input: other.signed)
            other.replace(MCUbootTLV.sha256, with: MCUbootTLV(type: MCUbootTLV.sha384, value: digest))
            let error = try refusal(other.bytes, verifier)
            #expect(error?.code == .unsupportedSignature)
            #expect(error?.context.contains(kind == .ecdsaP256 ? "ECDSA P-384" : "SHA384") == true)
            guard kind != .ed25519 else { continue }
            var pure = image
            pure.plain.append(MCUbootTLV(type: MCUbootTLV.pureSignature, value: [1]))
            #expect(try refusal(pure.bytes, verifier)?.context.contains("pure \(kind.algorithm.name)") == true)
        }
        var old = try image(ImagePrivateKey(SampleKey.key()))
        old.replace(MCUbootTLV.ed25519, with: MCUbootTLV(type: MCUbootTLV.ecdsaP224, value: [1]))
        #expect(try refusal(old.bytes, SampleKey.verifier())?.context.contains("ECDSA P-224") == true)
    }

    @Test("an ECDSA signature with imgtool's padding is verified, and any other padding is refused")
    func paddedSignatures() async throws {
        let key = try await OpenSSLKeys.key(.ecdsaP256)
        let verifier = try verifier(key)
        var shorter = 0
        for _ in 0..<20 where shorter == 0 {
            var image = try image(key)
            let signature = image[MCUbootTLV.ecdsa]
            let missing = 72 - signature.count
            for count in 1...3 where count != missing {
                image[MCUbootTLV.ecdsa] = signature + [UInt8](repeating: 0, count: count)
                #expect(try refusal(image.bytes, verifier)?.code == .badSignature)
            }
            guard missing > 0 else { continue }
            shorter += 1
            image[MCUbootTLV.ecdsa] = signature + [UInt8](repeating: 0, count: missing)
            #expect(try verifier.verify(MCUbootFile(parsing: image.bytes)).image.length > 0)
            image[MCUbootTLV.ecdsa] = signature + [UInt8](repeating: 1, count: missing)
            #expect(try refusal(image.bytes, verifier)?.code == .badSignature)
        }
        #expect(shorter == 1)
    }

    /// The bootloader accepts only a salt of 32 bytes (mcuboot, `image_rsa.c`).
    @Test("an RSA signature with another salt length, another digest or PKCS#1 v1.5 is refused")
    func otherPaddingsOfRSA() async throws {
        let pair = try await OpenSSLKeys.pair("rsa:2048")
        let key = try ImagePrivateKey(pem: SecretBytes(copying: pair.privateKey))
        let verifier = try verifier(key)
        let folder = try TemporaryFolder()
        let file = try folder.write("key.pem", pair.privateKey)
        var image = try image(key)
        let message = try folder.write("message", image.signed)
        let pss = ["-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_mgf1_md:sha256"]
        for (digest, options, isValid) in [
            ("-sha256", pss + ["-sigopt", "rsa_pss_saltlen:32"], true),
            ("-sha256", pss + ["-sigopt", "rsa_pss_saltlen:20"], false),
            ("-sha256", pss + ["-sigopt", "rsa_pss_saltlen:0"], false),
            ("-sha256", pss + ["-sigopt", "rsa_pss_saltlen:max"], false),
            (
                "-sha256",
                ["-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_mgf1_md:sha1", "-sigopt", "rsa_pss_saltlen:32"],
                false
            ),
            ("-sha512", pss + ["-sigopt", "rsa_pss_saltlen:32"], false), ("-sha256", [], false),
        ] as [(String, [String], Bool)] {
            let signature = try await OpenSSLCommand.run(
                ["dgst", digest, "-sign", file.string] + options + [message.string])
            #expect(signature.count == 256)
            image[MCUbootTLV.rsa2048] = signature
            guard isValid else {
                #expect(try refusal(image.bytes, verifier)?.code == .badSignature, "\(digest) \(options)")
                continue
            }
            #expect(
                try verifier.verify(MCUbootFile(parsing: image.bytes)).authorization == .signature(key.publicKey.id))
            // The signature is as long as the modulus, also if it starts with zero bytes.
            image[MCUbootTLV.rsa2048] = [0] + signature
            #expect(try refusal(image.bytes, verifier)?.code == .badSignature)
        }
    }

    /// libcrypto also accepts a number without its leading zero bytes.
    @Test("an RSA signature without its leading zero byte is refused")
    func aShortRSASignature() async throws {
        let key = try await OpenSSLKeys.key(.rsa2048)
        let verifier = try verifier(key)
        for _ in 0..<4000 {
            var image = try image(key)
            let signature = image[MCUbootTLV.rsa2048]
            guard signature[0] == 0 else { continue }
            #expect(try verifier.verify(MCUbootFile(parsing: image.bytes)).image.length > 0)
            image[MCUbootTLV.rsa2048] = Array(signature.dropFirst())
            #expect(try refusal(image.bytes, verifier)?.code == .badSignature)
            return
        }
        Issue.record("no signature started with a zero byte")
    }

    @Test("a trusted ECDSA or RSA key cannot sign bundles", arguments: kinds)
    func bundlesStayEd25519(kind: ImageKeyKind) async throws {
        let key = try await OpenSSLKeys.key(kind)
        let store = try TrustStore(imageKeys: [key.publicKey, ImagePublicKey(SampleKey.key().publicKey)])
        #expect(store[key.publicKey.id] == nil && store.keys.count == 1 && store.imageKeys.count == 2)
        let bundle = try makeBundle(signedBy: [SampleKey.key()])
        #expect(try Verifier(trust: store).verify(bundle).signers == [SampleKey.key().publicKey.id])
        let signature = try #require(
            BundleSignature(.ed25519, keyID: key.publicKey.id, signature: [UInt8](repeating: 1, count: 64)))
        let forged = try SignedBundle(
            envelope: Envelope(manifest: bundle.envelope.manifest, signatures: [signature]), image: bundle.image)
        #expect(throws: VerificationError(.untrustedKey, "")) { try Verifier(trust: store).verify(forged) }
    }
}
