import OTAFirmware
import OTASigning
import OTATestSupport
import SystemPackage
import Testing

/// The algorithms of MCUboot images, in both directions with imgtool 2.5.0.
@Suite("MCUboot images with each algorithm, against imgtool") struct ImageAlgorithmsTests {
    private let folder: TemporaryFolder
    private let program: FilePath

    init() throws {
        folder = try TemporaryFolder()
        program = try folder.write("program.bin", [1] + [UInt8](repeating: 7, count: 2999))
    }

    private func layout() throws -> MCUbootLayout {
        var layout = MCUbootLayout(version: try mcubootVersion("1.2.3"), headerSize: 64)
        layout.padsHeader = true
        layout.securityCounter = 5
        layout.slotSize = 0x8000
        return layout
    }

    private static let layoutOptions = [
        "--version", "1.2.3", "--header-size", "64", "--pad-header", "--security-counter", "5", "--slot-size", "0x8000",
    ]

    /// Creates a key pair with imgtool and returns the paths of both keys.
    private func keys(_ type: String) async throws -> (privateKey: FilePath, publicKey: FilePath) {
        let (key, pub) = (folder / "\(type).pem", folder / "\(type).pub.pem")
        for command in [
            ["keygen", "-k", key.string, "-t", type],
            ["getpub", "-k", key.string, "-e", "pem", "-o", pub.string],
        ] {
            let answer = try await Imgtool.run([command])[0]
            #expect(answer.succeeded, "\(answer.output)")
        }
        try changeMode(key, .ownerReadWrite)
        return (key, pub)
    }

    private static let variants: [(ImageKeyKind, options: [String], scheme: MCUbootSigner.Scheme?)] = [
        (.ed25519, [], .digest), (.ed25519, ["--sha", "256"], .digest), (.ed25519, ["--sha", "512"], .sha512),
        (.ed25519, ["--pure"], .pure),
        (.ed25519, ["--public-key-format", "full"], nil), (.ed25519, ["--pure", "--public-key-format", "full"], nil),
        (.ecdsaP256, [], .digest), (.ecdsaP256, ["--sha", "256"], .digest), (.ecdsaP256, ["--pad-sig"], nil),
        (.ecdsaP256, ["--public-key-format", "full"], nil),
        (.rsa2048, [], .digest), (.rsa2048, ["--sha", "256"], .digest),
        (.rsa2048, ["--public-key-format", "full"], nil),
        (.rsa3072, [], .digest), (.rsa3072, ["--sha", "256"], .digest),
        (.rsa3072, ["--public-key-format", "full"], nil),
    ]

    @Test("an image that imgtool signs with each algorithm and option is verified", arguments: variants)
    func imagesOfImgtoolAreVerified(
        kind: ImageKeyKind, options: [String], scheme: MCUbootSigner.Scheme?
    ) async throws {
        let (privateKey, publicKey) = try await keys(kind.imgtoolType)
        let output = folder / "theirs.bin"
        let sign =
            ["sign", "--key", privateKey.string] + Self.layoutOptions + options + [program.string, output.string]
        let answer = try await Imgtool.run([sign])[0]
        #expect(answer.succeeded, "\(answer.output)")
        let file = try MCUbootFile(parsing: contents(of: output))
        let verifier = Verifier(trust: try TrustStore(paths: [publicKey], filesAreChosen: true))
        let id = try KeyFile.publicKey(at: publicKey).id
        #expect(try verifier.verify(file).authorization == .signature(id))
        let report = verifier.report(on: file)
        #expect(report.signature?.holds == true && report.signature?.unsupported == nil && report.digestHolds == true)
        let stranger = Verifier(trust: try TrustStore(imageKeys: [await OpenSSLKeys.key(kind).publicKey]))
        #expect(throws: VerificationError(.untrustedKey, "")) { try stranger.verify(file) }
    }

    @Test("imgtool verifies an image that otaflash signs with each algorithm and digest", arguments: variants)
    func imgtoolVerifiesOurImages(kind: ImageKeyKind, options: [String], scheme: MCUbootSigner.Scheme?) async throws {
        guard let scheme else { return }
        let (privateKey, publicKey) = try await keys(kind.imgtoolType)
        let ours = folder / "ours.bin", theirs = folder / "theirs.bin"
        let key = try ImagePrivateKey(pem: KeyFile.privateKeyText(at: privateKey))
        let image = try MCUbootSigner(key: key, scheme: scheme).sign(program, as: layout(), to: ours)
        let answers = try await Imgtool.run([
            ["verify", "--key", publicKey.string, ours.string], ["dumpinfo", ours.string],
            ["sign", "--key", privateKey.string] + Self.layoutOptions + options + [program.string, theirs.string],
        ])
        #expect(answers.allSatisfy { $0.succeeded }, "\(answers.map(\.output))")
        #expect(answers[0].output.contains("Image was correctly validated"))
        // Only the signature's value, and for ECDSA its length, may differ from imgtool's image.
        let reference = try MCUbootFile(parsing: contents(of: theirs))
        let isSignature = { (tlv: MCUbootTLV) in MCUbootTLV.signatureTypes.contains(tlv.type) }
        #expect(image.image.tlvs.map(\.type) == reference.image.tlvs.map(\.type))
        #expect(image.image.tlvs.filter { !isSignature($0) } == reference.image.tlvs.filter { !isSignature($0) })
        #expect(
            image.bytes.prefix(Int(image.image.signedLength)) == reference.bytes.prefix(Int(image.image.signedLength)))
        #expect((image.bytes == reference.bytes) == (kind == .ed25519))
        #expect(try Verifier(trust: TrustStore(imageKeys: [key.publicKey])).verify(image).image == image.image)
    }

    /// The KEYHASH TLV is the SHA-256 of these bytes.
    @Test("the encoded key is imgtool's public key in C", arguments: ImageKeyKind.allCases)
    func theEncodedKeyIsThatOfImgtool(kind: ImageKeyKind) async throws {
        let (_, publicKey) = try await keys(kind.imgtoolType)
        let output = folder / "raw"
        let answer = try await Imgtool.run([["getpub", "-k", publicKey.string, "-e", "raw", "-o", output.string]])[0]
        #expect(answer.succeeded, "\(answer.output)")
        let key = try KeyFile.publicKey(at: publicKey)
        #expect(try key.algorithm == kind.algorithm && contents(of: output) == key.encoded)
        if kind != .ed25519 { #expect(key.id.bytes == Array(SHA256.digest(of: key.encoded).bytes.prefix(8))) }
    }

    @Test("an ECDSA P-384 image of imgtool is refused by name, also with its key hash")
    func ecdsaP384IsRefused() async throws {
        let (privateKey, publicKey) = try await keys("ecdsa-p384")
        let output = folder / "p384.bin"
        let sign = ["sign", "--key", privateKey.string] + Self.layoutOptions + [program.string, output.string]
        #expect(try await Imgtool.run([sign])[0].succeeded)
        let file = try MCUbootFile(parsing: contents(of: output))
        let verifier = Verifier(trust: try TrustStore([]))
        let error = #expect(throws: VerificationError(.unsupportedSignature, "")) { try verifier.verify(file) }
        #expect(error?.context.contains("ECDSA P-384") == true)
        #expect(verifier.report(on: file).signature?.unsupported?.contains("ECDSA P-384") == true)
        guard case .consent(let consent) = try verifier.accept(file).authorization else {
            Issue.record("expected consent")
            return
        }
        #expect(consent.reason == .unsupportedSignature)
        let trusted = #expect(throws: KeyError(.wrongAlgorithm, "")) {
            try TrustStore(paths: [publicKey], filesAreChosen: true)
        }
        #expect(trusted?.context.contains("P-384") == true)
        let signing = #expect(throws: KeyError(.wrongAlgorithm, "")) {
            try ImagePrivateKey(pem: KeyFile.privateKeyText(at: privateKey))
        }
        #expect(signing?.context.contains("P-384") == true)
    }

    @Test("pure signatures and SHA-512 are refused for ECDSA and RSA keys", arguments: ImageKeyKind.allCases)
    func onlyEd25519SignsWithoutSHA256(kind: ImageKeyKind) async throws {
        let key = try await OpenSSLKeys.key(kind)
        for scheme in [MCUbootSigner.Scheme.sha512, .pure] {
            guard kind != .ed25519 else {
                _ = try MCUbootSigner(key: key, scheme: scheme)
                continue
            }
            let error = #expect(throws: SigningError.self) { try MCUbootSigner(key: key, scheme: scheme) }
            #expect(error?.code == "wrong-algorithm" && error?.context.contains(kind.algorithm.name) == true)
        }
    }
}
