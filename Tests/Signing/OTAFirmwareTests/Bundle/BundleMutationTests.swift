import OTAFirmware
import OTATestSupport
import OTAUpdate
import Testing

@Suite("Damaged bundles") struct BundleMutationTests {
    @Test("each accepted mutation of a bundle is encoded to the same bytes")
    func whatIsReadIsWrittenTheSame() throws {
        var generator = SplitMix64(seed: 1)
        let manifest = try Manifest(
            imageFormat: .raw, imageSize: 5, securityCounter: 7, created: 1_767_225_600,
            imageDigest: try ExampleBundle.imageDigest(), version: try #require(SemanticVersion("1.1.0")),
            product: try #require(ProductName("demo")), hardware: HardwareRevisions("1..3,7"), minimumBattery: 30,
            source: "a1b2c3", requires: RequiredVersion(major: 1, minor: 0, patch: 0),
            unknownFields: [ManifestField(type: 0x0010, value: [1, 2, 3]), ManifestField(type: 0x8007, value: [])])
        let original =
            try Envelope(manifest: manifest, signatures: [try ExampleBundle.signature()]).bytes + [1, 2, 3, 4, 5]
        var taken = 0
        for _ in 0..<4000 {
            let bytes = generator.mutation(of: original)
            do {
                let bundle = try SignedBundle(parsing: bytes)
                #expect(bundle.bytes == bytes)
                #expect(try rebuilt(bundle.envelope.manifest).bytes == bundle.envelope.manifestBytes)
                taken += 1
            } catch let error as BundleError {
                #expect((0...bytes.count).contains(error.offset))
            }
        }
        // Digest, counter, key id and signature may have any value. Therefore some mutations are accepted, and some are refused.
        #expect((200...3800).contains(taken))
    }

    /// Encodes the manifest again from its fields. Each content has exactly one encoding.
    private func rebuilt(_ manifest: Manifest) throws -> Manifest {
        try Manifest(
            imageFormat: manifest.imageFormat, imageSize: manifest.imageSize,
            securityCounter: manifest.securityCounter, created: manifest.created, imageDigest: manifest.imageDigest,
            version: manifest.version, product: manifest.product, hardware: manifest.hardware,
            minimumBattery: manifest.minimumBattery, source: manifest.source, requires: manifest.requires,
            unknownFields: manifest.unknownFields)
    }
}
