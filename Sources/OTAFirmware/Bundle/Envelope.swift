/// A manifest with its signatures: what a device is sent before the first image byte. Read, not trusted.
public struct Envelope: Sendable, Hashable {
    /// The longest envelope, in bytes: a prefix of a bundle as long as this holds all of it.
    public static let maximumLength = Manifest.maximumLength + countLength + 4 * BundleSignature.encodedLength
    /// Count and three zeros.
    private static let countLength = 4

    public let manifest: Manifest
    /// 1 to 4, strictly ascending by key id.
    public let signatures: [BundleSignature]

    /// Puts the signatures in order.
    ///
    /// - Throws: `bad-signature-count` for none or more than four, `signature-order` for two of one key.
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

    /// Reads an envelope and nothing else.
    public init(parsing bytes: [UInt8]) throws(BundleError) {
        var reader = ByteReader(bytes)
        try self.init(reading: &reader)
        try reader.expectEnd(of: "envelope")
    }

    /// Reads the envelope at the start of a bundle, whatever follows; `maximumLength` bytes are enough. Its
    /// `bundleLength` then is the length the whole file must have.
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

    /// This envelope with one signature more.
    ///
    /// - Throws: `bad-signature-count` if there are four already, `signature-order` if this key has signed.
    public func adding(_ signature: BundleSignature) throws(BundleError) -> Envelope {
        try Envelope(manifest: manifest, signatures: signatures + [signature])
    }

    public var bytes: [UInt8] {
        var writer = ByteWriter(reservingCapacity: length)
        writer.write(manifest.bytes)
        writer.write(UInt8(truncatingIfNeeded: signatures.count))
        writer.writeZeros(3)
        for signature in signatures { signature.write(to: &writer) }
        return writer.bytes
    }

    /// What the signatures cover.
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
