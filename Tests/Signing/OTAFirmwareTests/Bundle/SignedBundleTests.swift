import OTAFirmware
import Testing

@Suite("Bundles") struct SignedBundleTests {
    @Test("the example of the format documentation is encoded to the documented bytes")
    func theWorkedExampleIsWritten() throws {
        let envelope = try Envelope(manifest: try ExampleBundle.manifest(), signatures: [try ExampleBundle.signature()])
        #expect(envelope.bytes == (try ExampleBundle.envelopeBytes()))
        let bundle = try SignedBundle(envelope: envelope, image: ExampleBundle.image)
        #expect(bundle.bytes == (try ExampleBundle.bytes()))
        #expect(bundle == (try SignedBundle(parsing: try ExampleBundle.bytes())))
    }

    @Test("the example of the format documentation is parsed to the documented values")
    func theWorkedExampleIsRead() throws {
        let bundle = try SignedBundle(parsing: try ExampleBundle.bytes())
        let manifest = bundle.envelope.manifest
        #expect(manifest.imageFormat == .raw)
        #expect(manifest.imageSize == 600)
        #expect(manifest.securityCounter == 7)
        #expect(manifest.created == 1_767_225_600)
        #expect(manifest.imageDigest == (try ExampleBundle.imageDigest()))
        #expect(manifest.version.text == "1.1.0")
        #expect(manifest.product.text == "demo")
        #expect(manifest.hardware?.ranges == [1...3])
        #expect(manifest.minimumBattery == nil)
        #expect(manifest.source == nil)
        #expect(manifest.requires == nil)
        #expect(manifest.unknownFields.isEmpty)
        #expect(manifest.bytes.count == 89)
        #expect(bundle.envelope.length == 169)
        #expect(bundle.envelope.bundleLength == 769)
        #expect(bundle.envelope.signatures == [try ExampleBundle.signature()])
        #expect(bundle.image == ExampleBundle.image)
    }

    @Test("each truncated bundle is refused")
    func everyTruncationIsRefused() throws {
        let bytes = try ExampleBundle.bytes()
        let manifest = try SignedBundle(parsing: bytes).envelope.manifestBytes.count
        for length in bytes.indices {
            let error = #expect(throws: BundleError.self) { try SignedBundle(parsing: Array(bytes.prefix(length))) }
            #expect(error?.code == (length == manifest ? .unsignedManifest : .truncated), "cut to \(length) bytes")
            #expect((error?.offset ?? .max) <= length, "cut to \(length) bytes")
        }
    }

    @Test("a byte after the image is refused")
    func nothingMayFollow() throws {
        let error = #expect(throws: BundleError.self) { try SignedBundle(parsing: try ExampleBundle.bytes() + [0]) }
        #expect(error?.code == .trailingBytes)
        #expect(error?.offset == 769)
    }
}
