/// A signature over a manifest, as stored in a bundle. This module does not verify signatures.
public struct BundleSignature: Sendable, Hashable {
    public enum Algorithm: UInt8, Sendable {
        /// Pure Ed25519 without a context (RFC 8032).
        case ed25519 = 1
    }
    /// The encoded length in bytes: 1 for the algorithm, 3 zeros, 8 for the key id, and 64 for the signature.
    public static let encodedLength = 76

    public let algorithm: Algorithm
    /// The identifier of the public key that verifies the signature. The identifier alone does not show that the owner of the key signed,
    /// because anybody can write a key id into a file.
    public let keyID: KeyID
    /// The Ed25519 signature, 64 bytes.
    public let signature: [UInt8]

    /// Returns nil if `signature` does not have 64 bytes.
    public init?(keyID: KeyID, signature: some Collection<UInt8>) {
        guard signature.count == 64 else { return nil }
        self.algorithm = .ed25519
        self.keyID = keyID
        self.signature = Array(signature)
    }

    init(reading reader: inout ByteReader) throws(BundleError) {
        let start = reader.offset
        let number = try reader.next(UInt8.self)
        guard let algorithm = Algorithm(rawValue: number) else {
            throw BundleError(
                .unsupportedAlgorithm, offset: start, expected: "algorithm 1 (Ed25519)", found: "\(number)")
        }
        try reader.expect([0, 0, 0], .notZero, "zero")
        self.algorithm = algorithm
        self.keyID = try KeyID(reading: &reader)
        self.signature = Array(try reader.next(64))
    }

    func write(to writer: inout ByteWriter) {
        writer.write(algorithm.rawValue)
        writer.writeZeros(3)
        writer.write(keyID.bytes)
        writer.write(signature)
    }
}

extension KeyID {
    fileprivate init(reading reader: inout ByteReader) throws(BundleError) {
        bytes = Array(try reader.next(8))
    }
}

/// The identifier of a public key: the first 8 bytes of a SHA-256. For an Ed25519 key, the SHA-256 covers the 32 raw key bytes. ECDSA and
/// RSA keys can only sign MCUboot images. For these keys, `OTASigning.ImagePublicKey.id` documents the covered bytes.
///
/// A verifier uses the identifier to find the public key of a signature. Only a verified signature shows that the owner of the key signed.
/// The identifier alone does not show this.
public struct KeyID: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The 8 bytes of the identifier.
    public let bytes: [UInt8]

    /// Returns nil if `bytes` does not have 8 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == 8 else { return nil }
        self.bytes = Array(bytes)
    }

    public static func < (left: KeyID, right: KeyID) -> Bool { left.bytes.lexicographicallyPrecedes(right.bytes) }

    /// The identifier as 16 lower-case hex digits.
    public var description: String { Hex.encode(bytes) }
}
