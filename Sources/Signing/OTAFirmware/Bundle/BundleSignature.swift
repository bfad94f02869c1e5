/// A signature over a manifest, as stored in a bundle. This module does not verify signatures.
///
/// An entry with an algorithm that this version of otaflash does not know is accepted and kept, because the key of the entry is unknown,
/// too. A signature by an unknown key has no effect.
public struct BundleSignature: Sendable, Hashable {
    /// The maximum length of a signature in bytes.
    public static let maximumLength = 8000
    /// The length of an entry without its signature, in bytes: 1 for the algorithm, 1 zero, 2 for the length of the signature, and 8 for
    /// the key id.
    static let headerLength = 12

    /// The number of the algorithm in the entry.
    public let algorithmNumber: UInt8
    /// The identifier of the public key that verifies the signature. The identifier alone does not show that the owner of the key signed,
    /// because anybody can write a key id into a file.
    public let keyID: KeyID
    /// The signature. Its length is `algorithm.signatureLength`, or 1 to `maximumLength` if the algorithm is unknown.
    public let signature: [UInt8]

    /// The algorithm, or nil if this version of otaflash does not know it.
    public var algorithm: SignatureAlgorithm? { SignatureAlgorithm(rawValue: algorithmNumber) }

    /// The length of the encoded entry in bytes.
    public var encodedLength: Int { Self.headerLength + signature.count }

    /// Returns nil if `signature` does not have the length of the algorithm's signatures.
    public init?(_ algorithm: SignatureAlgorithm, keyID: KeyID, signature: some Collection<UInt8>) {
        guard signature.count == algorithm.signatureLength else { return nil }
        self.algorithmNumber = algorithm.rawValue
        self.keyID = keyID
        self.signature = Array(signature)
    }

    init(reading reader: inout ByteReader) throws(BundleError) {
        algorithmNumber = try reader.next(UInt8.self)
        try reader.expect([0], .notZero, "zero")
        let offset = reader.offset
        let length = Int(try reader.next(UInt16.self))
        if let algorithm = SignatureAlgorithm(rawValue: algorithmNumber), length != algorithm.signatureLength {
            throw BundleError(
                .badSignatureLength, offset: offset,
                expected: "\(algorithm.signatureLength) bytes, the length of a signature by \(algorithm)",
                found: "\(length)")
        }
        guard (1...Self.maximumLength).contains(length) else {
            throw BundleError(
                .badSignatureLength, offset: offset, expected: "a signature of 1 to \(Self.maximumLength) bytes",
                found: "\(length)")
        }
        keyID = try KeyID(reading: &reader)
        signature = Array(try reader.next(length))
    }

    func write(to writer: inout ByteWriter) {
        writer.write(algorithmNumber)
        writer.writeZeros(1)
        writer.write(UInt16(truncatingIfNeeded: signature.count))
        writer.write(keyID.bytes)
        writer.write(signature)
    }
}

/// An algorithm of signatures over a manifest. The raw value is the number in a bundle.
public enum SignatureAlgorithm: UInt8, Sendable, CaseIterable, CustomStringConvertible {
    /// Pure Ed25519 without a context (RFC 8032).
    case ed25519 = 1
    // Pure ML-DSA (FIPS 204). The context is `OTASigning.SignatureDomain.bundle`.
    case mlDSA44 = 2
    case mlDSA65 = 3
    case mlDSA87 = 4

    /// The name in JSON, on the command line, and with capital letters in texts for people.
    public var name: String {
        switch self {
        case .ed25519: "ed25519"
        case .mlDSA44: "ml-dsa-44"
        case .mlDSA65: "ml-dsa-65"
        case .mlDSA87: "ml-dsa-87"
        }
    }

    public var description: String { self == .ed25519 ? "Ed25519" : name.uppercased() }

    /// The length of a signature in bytes (RFC 8032, 5.1.6; FIPS 204, table 2).
    public var signatureLength: Int {
        switch self {
        case .ed25519: 64
        case .mlDSA44: 2420
        case .mlDSA65: 3309
        case .mlDSA87: 4627
        }
    }

    /// The length of a raw public key in bytes (RFC 8032, 5.1.5; FIPS 204, table 2).
    public var publicKeyLength: Int {
        switch self {
        case .ed25519: 32
        case .mlDSA44: 1312
        case .mlDSA65: 1952
        case .mlDSA87: 2592
        }
    }
}

extension KeyID {
    fileprivate init(reading reader: inout ByteReader) throws(BundleError) {
        bytes = Array(try reader.next(8))
    }
}

/// The identifier of a public key: the first 8 bytes of a SHA-256. For an Ed25519 or ML-DSA key, the SHA-256 covers the raw key bytes.
/// ECDSA and RSA keys can only sign MCUboot images. For these keys, `OTASigning.ImagePublicKey.id` documents the covered bytes.
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
