import OTAFirmware
import OTAProfile
import OTASigning
import OTAUpdate
import Testing

/// A verified bundle, the CRC-32 of every prefix of its objects, and the info of a device that fits it.
struct HostileRelease {
    static let restartSeconds = 10
    static let trialSeconds = 60

    let bundle: VerifiedBundle
    let version = "1.1.0"
    /// Whether the device supports trials and the push uses them.
    let isTried: Bool
    private let checksums: [TransferObject: [UInt32]]
    private let key: KeyID

    var image: [UInt8] { bundle.image }

    init(bytes count: Int, isTried: Bool) throws {
        let image = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
        let privateKey = try PrivateKey.generate()
        let manifest = try Manifest(
            imageFormat: .raw, imageSize: UInt32(count), securityCounter: 8, created: 0,
            imageDigest: SHA256.digest(of: image), version: try #require(SemanticVersion(version)),
            product: try #require(ProductName("demo")))
        let signature = try #require(
            BundleSignature(.ed25519, keyID: privateKey.publicKey.id, signature: try privateKey.sign(manifest.bytes)))
        let envelope = try Envelope(manifest: manifest, signatures: [signature])
        bundle = try Verifier(trust: try TrustStore([privateKey.publicKey])).verify(
            try SignedBundle(envelope: envelope, image: image))
        key = privateKey.publicKey.id
        self.isTried = isTried
        checksums = [.envelope: Self.checksums(of: envelope.bytes), .image: Self.checksums(of: image)]
    }

    func bytes(of object: TransferObject) -> [UInt8] {
        object == .envelope ? bundle.envelope.bytes : bundle.image
    }

    /// Returns the CRC-32 of the object's first `offset` bytes. The object has at least so many bytes.
    func checksum(of object: TransferObject, upTo offset: Int) -> UInt32 { checksums[object]?[offset] ?? 0 }

    /// - Parameter largestBase: nil: the device offers no encodings.
    func info(
        window: Int, longestValue: Int, runsNew: Bool, held: Int, counter: UInt32, largestBase: UInt32?
    ) -> [UInt8] {
        var fields: [(UInt8, [UInt8])] = [
            (1, [1]), (2, Array("demo".utf8)), (3, [2, 0]), (4, little(counter)), (5, [0] + little(1 << 20 as UInt32)),
            (6, little(UInt16(longestValue)) + little(UInt16(window))),
            (7, little(UInt16(Self.restartSeconds)) + little(UInt16(isTried ? Self.trialSeconds : 0))),
            (8, key.bytes),
        ]
        if runsNew { fields.append((9, bundle.manifestDigest.prefix)) }
        if held > 0 { fields.append((10, bundle.manifestDigest.prefix + little(UInt32(held)))) }
        if let largestBase { fields.append((11, [1] + little(largestBase))) }
        return fields.flatMap { [$0.0, UInt8($0.1.count)] + $0.1 }
    }

    private static func checksums(of bytes: [UInt8]) -> [UInt32] {
        var checksums: [UInt32] = [0]
        for byte in bytes { checksums.append(CRC32.update(checksums[checksums.count - 1], [byte])) }
        return checksums
    }

    private func little<Number: FixedWidthInteger & UnsignedInteger>(_ number: Number) -> [UInt8] {
        var writer = ByteWriter()
        writer.write(number)
        return writer.bytes
    }
}
