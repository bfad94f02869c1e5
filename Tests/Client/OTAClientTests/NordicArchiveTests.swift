import OTAClient
import OTAFirmware
import OTAProtocol
import OTASigning
import OTATestSupport
import OTAUpdate
import SystemPackage
import Testing

@Suite("Nordic DFU packages of nrfutil and adafruit-nrfutil") struct NordicArchiveTests {
    static func packageFile(_ name: String) throws -> [UInt8] {
        try Repository.contents(of: Repository.root.appending("Tests/Support/nordic-packages/\(name).zip"))
    }

    /// A key that signed none of the packages.
    private static let otherKey = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEt329yXEK6sNpZP294p/HHk4tIAOt
        nPgQLT7x3/FvW7lLNyIEkPeuQrJLFTEXFKmW2wQkvKGF6hhdEXI8kvQ3Iw==
        -----END PUBLIC KEY-----
        """

    /// The public half of the test key that signed the packages.
    static func verifier(_ policy: TrustPolicy = TrustPolicy()) throws -> Verifier {
        let pem = try Repository.contents(of: Repository.root.appending("Fuzz/Corpus/keys/ecdsa-p256-public"))
        return Verifier(
            trust: try TrustStore(imageKeys: [ImagePublicKey(pem: SecretBytes(copying: pem))]), policy: policy)
    }

    static let contents: [(name: String, NordicPackage.DFUProtocol, [(NordicSection.Part, Int)], isSigned: Bool)] = [
        ("legacy", .legacy, [(.application, 516)], false), ("legacy-signed", .legacy, [(.application, 516)], true),
        ("legacy-both", .legacy, [(.softDeviceBootloader, 648)], false),
        ("secure", .secure, [(.application, 516)], true), ("secure-unsigned", .secure, [(.application, 516)], false),
        ("secure-all", .secure, [(.softDeviceBootloader, 648), (.application, 516)], true),
    ]

    @Test("each package has the parts that its tool was given, and correct digests", arguments: contents)
    func parts(
        name: String, dfuProtocol: NordicPackage.DFUProtocol, parts: [(NordicSection.Part, Int)], isSigned: Bool
    ) throws {
        let package = try #require(try NordicArchive.package(in: Self.packageFile(name)))
        #expect(package.dfuProtocol == dfuProtocol)
        #expect(package.sections.map(\.part) == parts.map(\.0) && package.sections.map(\.image.count) == parts.map(\.1))
        #expect(throws: Never.self) { try package.checkDigests() }
        for part in package.sections where part.part == .softDeviceBootloader {
            #expect(part.bothSizes.map { [$0.softDevice, $0.bootloader] } == [388, 260])
        }
        #expect(package.sections.allSatisfy { ($0.signature != nil) == isSigned })
    }

    @Test("a package is verified if a trusted key signed it, and an unsigned one is refused", arguments: contents)
    func signatures(
        name: String, dfuProtocol: NordicPackage.DFUProtocol, parts: [(NordicSection.Part, Int)], isSigned: Bool
    ) throws {
        let package = try #require(try NordicArchive.package(in: Self.packageFile(name)))
        let verifier = try Self.verifier()
        let key = try #require(verifier.trust.imageKeys.first)
        guard isSigned else {
            #expect(throws: VerificationError(.notSigned, "")) { try verifier.verify(package) }
            return
        }
        #expect(try verifier.verify(package).signers == parts.map { _ in key.id })
        let otherKey = try ImagePublicKey(pem: SecretBytes(copying: Array(Self.otherKey.utf8)))
        for keys in [[], [otherKey]] {
            let other = Verifier(trust: try TrustStore(imageKeys: keys))
            #expect(throws: VerificationError(.untrustedKey, "")) { try other.verify(package) }
        }
    }

    @Test("the policy for a package compares the hardware, and refuses a required product or security counter")
    func policy() throws {
        let package = try #require(try NordicArchive.package(in: Self.packageFile("secure")))
        func code(_ policy: TrustPolicy) throws -> VerificationError.Code? {
            let verifier = try Self.verifier(policy)
            do throws(VerificationError) {
                _ = try verifier.verify(package)
                return nil
            } catch {
                return error.code
            }
        }
        #expect(try code(TrustPolicy(hardware: 52)) == nil && code(TrustPolicy(minimumSecurityCounter: 0)) == nil)
        #expect(try code(TrustPolicy(hardware: 53)) == .wrongHardware)
        #expect(try code(TrustPolicy(product: ProductName("lamp"))) == .wrongProduct)
        #expect(try code(TrustPolicy(minimumSecurityCounter: 1)) == .counterTooLow)
        #expect(try code(TrustPolicy(minimumSigners: 2)) == .tooFewSignatures)
        let legacy = try #require(try NordicArchive.package(in: Self.packageFile("legacy-signed")))
        #expect(try Self.verifier(TrustPolicy(hardware: 52840)).verify(legacy).signers.count == 1)
    }

    @Test("no protocol pushes a bundle that contains a Nordic DFU package")
    func notAccepted() throws {
        let key = try PrivateKey.generate()
        let image = try Self.packageFile("secure")
        let manifest = try Manifest(
            imageFormat: .nordicDFU, imageSize: UInt32(image.count), securityCounter: 0, created: 0,
            imageDigest: SHA256.digest(of: image), version: #require(SemanticVersion("1.0.0")),
            product: #require(ProductName("demo")))
        let signature = try key.sign(manifest.bytes, in: .bundle)
        let entry = try #require(BundleSignature(.ed25519, keyID: key.publicKey.id, signature: signature))
        let envelope = try Envelope(manifest: manifest, signatures: [entry])
        let update = try UpdateFile(parsing: envelope.bytes + image).verified(
            by: Verifier(trust: TrustStore([key.publicKey])))
        for definition in Protocols.all.map(\.definition) {
            #expect(!definition.accepts(update), "\(definition.updateProtocol)")
            #expect(throws: UpdateError(.wrongImageFormat, "")) {
                try definition.conversation(.push(update, UpdateOptions()))
            }
        }
    }

    @Test("an update file that is a Nordic DFU package is refused with the name of its protocol")
    func notPushed() throws {
        for (name, title) in [("legacy", "Nordic Legacy DFU"), ("secure", "Nordic Secure DFU")] {
            do {
                _ = try UpdateFile(parsing: Self.packageFile(name))
                Issue.record("accepted")
            } catch let error as PackageError {
                #expect(error.code == .notPushed && error.context.contains(title))
            }
        }
    }
}
