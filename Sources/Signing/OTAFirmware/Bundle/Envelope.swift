/// A manifest with its signatures. The host sends the envelope before the first image byte. This module does not verify the signatures.
public struct Envelope: Sendable, Hashable {
    /// The length of the longest envelope, in bytes. The first `maximumLength` bytes of a bundle contain its whole envelope.
    public static let maximumLength =
        Manifest.maximumLength + countLength + maximumSignatures
        * (BundleSignature.headerLength + BundleSignature.maximumLength)
    /// The maximum number of signatures. A release that two people sign with two algorithms each has four. While both people change their
    /// keys, it has eight.
    public static let maximumSignatures = 8
    /// The length in bytes of the signature count (1 byte) together with the three zero bytes after the count.
    private static let countLength = 4

    public let manifest: Manifest
    /// The 1 to `maximumSignatures` signatures, strictly ascending by key id.
    public let signatures: [BundleSignature]

    /// Creates an envelope and sorts the signatures.
    ///
    /// - Throws: `bad-signature-count` if the number of signatures is not 1 to `maximumSignatures`; `signature-order` if two signatures
    ///   have the same key id.
    public init(manifest: Manifest, signatures: [BundleSignature]) throws(BundleError) {
        let sorted = signatures.sorted { $0.keyID < $1.keyID }
        let start = manifest.bytes.count
        try Self.check(count: sorted.count, at: start)
        var offset = start + Self.countLength
        for (last, signature) in zip(sorted, sorted.dropFirst()) {
            offset += last.encodedLength
            try Self.check(signature.keyID, after: last.keyID, at: offset + Self.keyIDOffset)
        }
        self.manifest = manifest
        self.signatures = sorted
    }

    /// Parses an envelope. Throws `trailing-bytes` if `bytes` continues after the envelope.
    public init(parsing bytes: [UInt8]) throws(BundleError) {
        var reader = ByteReader(bytes)
        try self.init(reading: &reader)
        try reader.expectEnd(of: "envelope")
    }

    /// Parses the envelope at the start of a bundle and ignores all bytes after the envelope.
    ///
    /// `bytes` can be the whole bundle or only its first `maximumLength` bytes. This initializer does not know the length of the file.
    /// Therefore the caller must check that the file has `bundleLength` bytes.
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
        for _ in 0..<count {
            let offset = reader.offset
            let signature = try BundleSignature(reading: &reader)
            if let last = signatures.last {
                try Self.check(signature.keyID, after: last.keyID, at: offset + Self.keyIDOffset)
            }
            signatures.append(signature)
        }
        self.manifest = manifest
        self.signatures = signatures
    }

    /// Returns this envelope with an additional signature.
    ///
    /// - Throws: `bad-signature-count` if this envelope already has `maximumSignatures` signatures; `signature-order` if this envelope
    ///   already has a
    ///   signature with the same key id as `signature`.
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

    /// The length of the encoded envelope in bytes, at most `maximumLength`.
    public var length: Int {
        signatures.reduce(manifest.bytes.count + Self.countLength) { $0 + $1.encodedLength }
    }

    /// The length of the whole bundle in bytes. The bundle consists of the envelope and the image.
    public var bundleLength: UInt64 { UInt64(length) + UInt64(manifest.imageSize) }

    private static func check(count: Int, at offset: Int) throws(BundleError) {
        guard (1...maximumSignatures).contains(count) else {
            throw BundleError(
                .badSignatureCount, offset: offset, expected: "1 to \(maximumSignatures) signatures",
                found: "\(count)")
        }
    }

    private static func check(_ keyID: KeyID, after last: KeyID, at offset: Int) throws(BundleError) {
        guard last < keyID else {
            throw BundleError(.signatureOrder, offset: offset, expected: "a key id above \(last)", found: "\(keyID)")
        }
    }

    /// The offset of the key id in an entry, in bytes.
    private static let keyIDOffset = 4
}
