import Glibc
import OTAFirmware
import OTASigning
import SystemPackage
import Testing

@Suite("Adding signatures to a bundle") struct AddSignatureTests {
    private let folder: TemporaryFolder
    private let keys: [PrivateKey]
    private let input: FilePath

    init() throws {
        folder = try TemporaryFolder()
        keys = try RFC8032.all.map { try $0.privateKey() }
        input = try folder.write("in.otaf", WorkedExample.bytes)
    }

    private func add(_ keys: [PrivateKey], to input: FilePath? = nil, as release: Release = Release()) throws
        -> SignedFile
    {
        try BundleSigner(keys: keys).sign(
            input ?? self.input, as: release, created: 99, to: folder / "out.otaf", replace: true)
    }

    private func expectRefusal(_ code: String, _ body: () throws -> SignedFile) {
        let error = #expect(throws: SigningError.self) { try body() }
        #expect(error?.code == code)
        #expect(!folder.names().contains("out.otaf"))
        #expect(!folder.names().contains { $0.hasPrefix(".") })
    }

    @Test("adding a signature changes neither the manifest nor the image nor the old signatures")
    func everythingElseStaysAsItWas() throws {
        let signed = try add([keys[1]])
        let bundle = try SignedBundle(parsing: contents(of: folder / "out.otaf"))
        let old = try WorkedExample.bundle()
        #expect(bundle.envelope == signed.envelope)
        #expect(bundle.envelope.manifestBytes == old.envelope.manifestBytes)
        #expect(bundle.image == old.image)
        #expect(Set(bundle.envelope.signatures).isSuperset(of: old.envelope.signatures))
        #expect(bundle.envelope.signatures.count == 2)
        #expect(signed.image == nil)
        for key in keys.prefix(2) {
            #expect(try Verifier(trust: TrustStore([key.publicKey])).verify(bundle).signers == [key.publicKey.id])
        }
    }

    @Test("adding signatures gives the same bytes as signing with all keys at once")
    func itIsTheSameAsSigningWithAllAtOnce() throws {
        _ = try add([keys[3], keys[1]])
        let first = try contents(of: folder / "out.otaf")
        #expect(try makeBundle(signedBy: [keys[0], keys[1], keys[3]]).bytes == first)
    }

    @Test("the output may replace the input bundle")
    func theInputCanBeReplaced() throws {
        _ = try BundleSigner(keys: [keys[1]]).sign(input, created: 0, to: input, replace: true)
        #expect(try contents(of: input) == makeBundle(signedBy: [keys[0], keys[1]]).bytes)
        #expect(folder.names() == ["in.otaf"])
    }

    @Test("a second signature by the same key is refused")
    func aKeySignsOnce() {
        expectRefusal("already-signed") { try add([keys[0]]) }
        expectRefusal("already-signed") { try add([keys[1], keys[1]]) }
    }

    @Test("a ninth signature is refused, and at least one key is required")
    func eightSignaturesAreAllThereCanBe() throws {
        let more = try (0..<5).map { _ in try PrivateKey.generate() }
        expectRefusal("too-many-signatures") { try add(keys[1...] + more) }
        expectRefusal("key-required") { try add([]) }
        _ = try add(keys[1...] + more.dropLast())
        #expect(try SignedBundle(parsing: contents(of: folder / "out.otaf")).envelope.signatures.count == 8)
    }

    @Test("manifest values for a bundle are refused")
    func nothingElseOfABundleCanBeChanged() {
        for release in [Release(product: ProductName("other")), Release(securityCounter: 7), Release(format: .raw)] {
            expectRefusal("already-a-bundle") { try add([keys[1]], as: release) }
        }
    }

    @Test(
        "a damaged bundle is not signed", arguments: ["malformed-bundle", "digest-mismatch", "truncated", "not-zero"])
    func aDamagedBundleIsNotSigned(_ code: String) throws {
        var bytes = WorkedExample.bytes
        switch code {
        case "malformed-bundle": bytes.removeLast()
        case "digest-mismatch": bytes[bytes.count - 1] ^= 1
        case "truncated": bytes.removeLast(bytes.count - 100)
        default: bytes[12] = 1
        }
        let damaged = try folder.write("damaged.otaf", bytes)
        expectRefusal(code) { try add([keys[1]], to: damaged) }
    }

    @Test("a bundle with bytes after its end is not signed")
    func whatFollowsABundleIsNotSigned() throws {
        let longer = try folder.write("longer.otaf", WorkedExample.bytes + [0])
        expectRefusal("malformed-bundle") { try add([keys[1]], to: longer) }
    }

    @Test("a bundle with an unknown critical field is not signed")
    func whatIsNotUnderstoodIsNotSigned() throws {
        let critical = ManifestField(type: 0x8007, value: [1])
        let bundle = try makeBundle(unknownFields: [critical], signedBy: [keys[0]])
        let path = try folder.write("critical.otaf", bundle.bytes)
        expectRefusal("unknown-critical-field") { try add([keys[1]], to: path) }
    }
}
