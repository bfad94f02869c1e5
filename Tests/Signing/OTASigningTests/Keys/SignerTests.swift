import OTAFirmware
import OTASigning
import SystemPackage
import Testing

/// A signer with its own answer to each message. A token or a program outside this process can give any answer.
private struct OutsideSigner: Signer {
    let publicKey: PublicKey
    let answer: @Sendable ([UInt8]) throws(KeyError) -> [UInt8]

    func sign(_ message: [UInt8], in domain: SignatureDomain) throws(KeyError) -> [UInt8] { try answer(message) }
}

/// The same for MCUboot images.
private struct OutsideImageSigner: ImageSigner {
    let publicKey: ImagePublicKey
    let answer: @Sendable ([UInt8]) throws(KeyError) -> [UInt8]

    func sign(_ message: [UInt8]) throws(KeyError) -> [UInt8] { try answer(message) }
}

@Suite("Signing with a key that is not in memory") struct SignerTests {
    private let folder: TemporaryFolder
    private let key: PrivateKey
    private let other: PrivateKey

    init() throws {
        folder = try TemporaryFolder()
        key = try RFC8032.all[0].privateKey()
        other = try RFC8032.all[1].privateKey()
    }

    private func signer(_ answer: @escaping @Sendable ([UInt8]) throws(KeyError) -> [UInt8]) -> OutsideSigner {
        OutsideSigner(publicKey: key.publicKey, answer: answer)
    }

    /// Signs the image of the worked example as `out.otaf`.
    private func bundle(_ signer: any Signer) throws -> [UInt8] {
        let image = try folder.write("image", WorkedExample.image)
        let release = Release(
            product: ProductName("demo"), version: SemanticVersion("1.1.0"),
            hardware: HardwareRevisions(ranges: [1...3]), securityCounter: 7)
        _ = try BundleSigner(keys: [signer]).sign(image, as: release, created: 1_767_225_600, to: folder / "out.otaf")
        return try contents(of: folder / "out.otaf")
    }

    /// Signs a small binary as the MCUboot image `out.bin`.
    private func image(_ signer: MCUbootSigner) throws -> [UInt8] {
        let program = try folder.write("program", Array(0..<64))
        var layout = MCUbootLayout(version: try mcubootVersion("1.0.0"), headerSize: 32)
        layout.padsHeader = true
        _ = try signer.sign(program, as: layout, to: folder / "out.bin")
        return try contents(of: folder / "out.bin")
    }

    @Test("a bundle from an outside signer is the worked example to the byte")
    func bundleOfAnOutsideSigner() throws {
        let key = key
        #expect(try bundle(signer { (message) throws(KeyError) in try key.sign(message) }) == WorkedExample.bytes)
    }

    @Test("a signer gets the context of a bundle for a manifest, and an empty context for an attestation")
    func contexts() throws {
        struct Recorder: Signer {
            let key: PrivateKey
            let expected: [UInt8]
            var publicKey: PublicKey { key.publicKey }

            func sign(_ message: [UInt8], in domain: SignatureDomain) throws(KeyError) -> [UInt8] {
                guard domain.context == expected else { throw KeyError(.signerFailed, "\(domain.context)") }
                return try key.sign(message, in: domain)
            }
        }
        let manifest = Recorder(key: key, expected: Array("otaflash-bundle".utf8))
        #expect(try bundle(manifest) == WorkedExample.bytes)
        let statement = Statement(subjects: [], predicateType: "https://example.org/x", predicate: .object([]))
        _ = try AttestationEnvelope(signing: statement, with: [Recorder(key: key, expected: [])])
    }

    @Test("an MCUboot image from an outside Ed25519 signer equals the image from the key in memory")
    func imageOfAnOutsideSigner() throws {
        let key = key
        let outside = signer { (message) throws(KeyError) in try key.sign(message) }
        for scheme in [MCUbootSigner.Scheme.digest, .sha512, .pure] {
            let expected = try image(MCUbootSigner(key: key, scheme: scheme))
            try folder.remove("out.bin")
            #expect(try image(MCUbootSigner(key: outside, scheme: scheme)) == expected)
            try folder.remove("out.bin")
        }
    }

    @Test("an outside ECDSA signer gets the image itself, and its image verifies")
    func imageOfAnOutsideECDSASigner() async throws {
        let key = try await OpenSSLKeys.key(.ecdsaP256)
        let outside = OutsideImageSigner(publicKey: key.publicKey) { (message) throws(KeyError) in
            #expect(message.count == 96)
            return try key.sign(message)
        }
        let bytes = try image(MCUbootSigner(key: outside))
        let report = Verifier(trust: try TrustStore(imageKeys: [key.publicKey]))
            .report(on: try MCUbootFile(parsing: bytes))
        #expect(report.signature?.holds == true)
    }

    @Test(
        "a wrong signature from an outside signer is refused, and no output file is left",
        arguments: ["of another key", "of another message", "short", "long", "empty", "zeros"])
    func wrongSignature(kind: String) throws {
        let (key, other) = (key, other)
        let answer: @Sendable ([UInt8]) throws(KeyError) -> [UInt8] = { (message) throws(KeyError) in
            switch kind {
            case "of another key": try other.sign(message)
            case "of another message": try key.sign(message + [0])
            case "short": try key.sign(message).dropLast()
            case "long": try key.sign(message) + [0]
            case "empty": []
            default: [UInt8](repeating: 0, count: 64)
            }
        }
        let error = #expect(throws: SigningError.self) { try bundle(signer(answer)) }
        #expect(error?.code == "signer-protocol")
        let imageError = #expect(throws: SigningError.self) { try image(MCUbootSigner(key: signer(answer))) }
        #expect(imageError?.code == "signer-protocol")
        let outside = OutsideImageSigner(publicKey: ImagePublicKey(key.publicKey), answer: answer)
        #expect(throws: SigningError.self) { try image(MCUbootSigner(key: outside)) }
        #expect(folder.names() == ["image", "program"])
    }

    @Test("the error of an outside signer is the error of the signature")
    func signerFails() throws {
        let error = #expect(throws: SigningError.self) {
            try bundle(signer { (_) throws(KeyError) in throw KeyError(.readFailed, "the token was removed") })
        }
        #expect(error?.code == "read-failed" && error?.context == "the token was removed")
        #expect(folder.names() == ["image"])
    }
}
