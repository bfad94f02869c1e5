import OTAFirmware
import Testing

@Suite("Envelopes") struct EnvelopeTests {
    private func signature(_ number: UInt8) throws -> BundleSignature {
        let keyID = try #require(KeyID(bytes: [number, 0, 0, 0, 0, 0, 0, 0]))
        return try #require(BundleSignature(.ed25519, keyID: keyID, signature: Array(repeating: number, count: 64)))
    }

    private func envelope(_ numbers: [UInt8]) throws -> Envelope {
        try Envelope(manifest: try ExampleBundle.manifest(), signatures: numbers.map { try signature($0) })
    }

    @Test("the signatures of an envelope are sorted by key id")
    func signaturesAreSortedByKey() throws {
        var envelope = try envelope([7])
        for number: UInt8 in [9, 1, 8] { envelope = try envelope.adding(try signature(number)) }
        #expect(envelope.signatures == (try [1, 7, 8, 9].map { try signature($0) }))
        #expect(try Envelope(parsing: envelope.bytes) == envelope)
        #expect(envelope.bytes.count == envelope.length)
        #expect(envelope.length == 89 + 4 + 4 * 76)
    }

    @Test("an envelope has one to eight signatures, each by another key")
    func oneToEightOfDifferentKeys() throws {
        #expect(throws: BundleError.self) { try envelope([]) }
        let twice = #expect(throws: BundleError.self) { try envelope([1, 2]).adding(try signature(2)) }
        #expect(twice?.code == .signatureOrder)
        let nine = #expect(throws: BundleError.self) { try envelope(Array(1...8)).adding(try signature(9)) }
        #expect(nine?.code == .badSignatureCount)
    }

    /// The count is at offset 89, three zeros follow, and signatures of 76 bytes each begin at offset 93.
    @Test(
        "a wrong byte in the signatures is refused with its offset",
        arguments: [
            (89, 0, .badSignatureCount, 89), (89, 9, .badSignatureCount, 89), (90, 1, .notZero, 90),
            (92, 1, .notZero, 90),
            (93, 2, .badSignatureLength, 95), (95, 63, .badSignatureLength, 95), (171, 65, .badSignatureLength, 171),
            (94, 1, .notZero, 94), (170, 1, .notZero, 170), (173, 1, .signatureOrder, 173),
            (173, 0, .signatureOrder, 173),
            (89, 1, .trailingBytes, 169), (89, 3, .truncated, 245),
        ] as [(Int, UInt8, BundleError.Code, Int)])
    func oneByteWrong(at offset: Int, value: UInt8, code: BundleError.Code, where found: Int) throws {
        var bytes = try envelope([1, 2]).bytes
        bytes[offset] = value
        let error = #expect(throws: BundleError.self) { try Envelope(parsing: bytes) }
        #expect(error?.code == code)
        #expect(error?.offset == found)
    }

    @Test(
        "a signature of an unknown algorithm is kept if it has 1 to 8000 bytes",
        arguments: [(0, false), (1, true), (64, true), (8000, true), (8001, false), (65_535, false)])
    func unknownAlgorithm(length: Int, isAccepted: Bool) throws {
        let entry: [UInt8] = [9, 0, UInt8(length & 0xFF), UInt8(length >> 8)] + [UInt8](repeating: 0xFF, count: 8)
        var bytes = try envelope([1]).bytes + entry + [UInt8](repeating: 7, count: length)
        bytes[89] = 2
        guard isAccepted else {
            let error = #expect(throws: BundleError.self) { try Envelope(parsing: bytes) }
            #expect(error?.code == .badSignatureLength && error?.offset == 171)
            return
        }
        let parsed = try Envelope(parsing: bytes)
        #expect(parsed.bytes == bytes && parsed.signatures.map(\.algorithm) == [.ed25519, nil])
    }

    @Test("an envelope is parsed from the first bytes of a file")
    func aPrefixOfTheFileIsEnough() throws {
        let bytes = try ExampleBundle.bytes()
        let envelope = try Envelope(parsingPrefix: Array(bytes.prefix(169)))
        #expect(envelope == (try SignedBundle(parsing: bytes)).envelope)
        #expect(envelope.bundleLength == 769)
        #expect(Envelope.maximumLength == 65_124)
    }

    @Test("the bundle length does not overflow for an image of 2^32 - 1 bytes")
    func anImageOfTheLargestSizeIsCountedInSixtyFourBits() throws {
        var bytes = try ExampleBundle.envelopeBytes()
        bytes.replaceSubrange(8..<12, with: [0xFF, 0xFF, 0xFF, 0xFF])
        #expect(try Envelope(parsing: bytes).bundleLength == 169 + 4_294_967_295)
        let error = #expect(throws: BundleError.self) { try SignedBundle(parsing: bytes + [0]) }
        #expect(error?.code == .truncated)
        #expect(error?.offset == 169)
    }
}
