/// A manifest with its signatures. The host sends it before the first image byte. The signatures are not verified.
public struct Envelope: Sendable, Hashable {
    /// The length of the longest envelope, in bytes. The first `maximumLength` bytes of a bundle contain its whole envelope.
    public static let maximumLength = Manifest.maximumLength + countLength + 4 * BundleSignature.encodedLength
    /// The length of the count and three zeros, in bytes.
    private static let countLength = 4

    public let manifest: Manifest
    /// 1 to 4 signatures, strictly ascending by key id.
    public let signatures: [BundleSignature]

    /// Creates an envelope and sorts the signatures.
    ///
    /// - Throws: `bad-signature-count` for zero or more than four signatures, `signature-order` for two signatures of one key.
    public init(manifest: Manifest, signatures: [BundleSignature]) throws(BundleError) {
        let sorted = signatures.sorted { $0.keyID < $1.keyID }
        let start = manifest.bytes.count
        try Self.check(count: sorted.count, at: start)
        for (index, (last, signature)) in zip(sorted, sorted.dropFirst()).enumerated() {
            try Self.check(signature.keyID, after: last.keyID, at: Self.keyIDOffset(index + 1, from: start))
        }
        self.manifest = manifest
        self.signatures = sorted
    }

    /// Parses an envelope. No bytes may follow it.
    public init(parsing bytes: [UInt8]) throws(BundleError) {
        var reader = ByteReader(bytes)
        try self.init(reading: &reader)
        try reader.expectEnd(of: "envelope")
    }

    /// Parses the envelope at the start of a bundle and ignores the bytes after it. `maximumLength` bytes are enough.
    ///
    /// The length of the whole file must then be equal to `bundleLength`.
    public init(parsingPrefix bytes: [UInt8]) throws(BundleError) {
        var reader = ByteReader(bytes)
        try self.init(reading: &reader)
    }

    init(reading reader: inout ByteReader) throws(BundleError) {
        let manifest = try Manifest(reading: &reader)
        let start = reader.offset
        let count = Int(try reader.next(UInt8.self))
        try Self.check(count: count, at: start)
        try reader.expect([0, 0, 0], .notZero, "zero")
        var signatures: [BundleSignature] = []
        for index in 0..<count {
            let signature = try BundleSignature(reading: &reader)
            if let last = signatures.last {
                try Self.check(signature.keyID, after: last.keyID, at: Self.keyIDOffset(index, from: start))
            }
            signatures.append(signature)
        }
        self.manifest = manifest
        self.signatures = signatures
    }

    /// Returns this envelope with an additional signature.
    ///
    /// - Throws: `bad-signature-count` if there are already four signatures, `signature-order` if this key has already signed.
    public func adding(_ signature: BundleSignature) throws(BundleError) -> Envelope {
        try Envelope(manifest: manifest, signatures: signatures + [signature])
    }

    /// The encoded envelope.
    public var bytes: [UInt8] {
        var writer = ByteWriter(reservingCapacity: length)
        writer.write(manifest.bytes)
        writer.write(UInt8(truncatingIfNeeded: signatures.count))
        writer.writeZeros(3)
        for signature in signatures { signature.write(to: &writer) }
        return writer.bytes
    }

    /// The bytes that the signatures cover.
    public var manifestBytes: [UInt8] { manifest.bytes }

    /// The length of `bytes`, at most `maximumLength`.
    public var length: Int {
        manifest.bytes.count + Self.countLength + signatures.count * BundleSignature.encodedLength
    }

    /// The length of the whole bundle, envelope and image, in bytes.
    public var bundleLength: UInt64 { UInt64(length) + UInt64(manifest.imageSize) }

    private static func check(count: Int, at offset: Int) throws(BundleError) {
        guard (1...4).contains(count) else {
            throw BundleError(.badSignatureCount, offset: offset, expected: "1 to 4 signatures", found: "\(count)")
        }
    }

    private static func check(_ keyID: KeyID, after last: KeyID, at offset: Int) throws(BundleError) {
        guard last < keyID else {
            throw BundleError(.signatureOrder, offset: offset, expected: "a key id above \(last)", found: "\(keyID)")
        }
    }

    private static func keyIDOffset(_ index: Int, from start: Int) -> Int {
        start + countLength + index * BundleSignature.encodedLength + 4
    }
}
