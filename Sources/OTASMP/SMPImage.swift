import OTAFirmware
public import OTASigning

/// A verified image to push, and the number of the processor that it is for.
public struct SMPImage: Sendable {
    public let verified: VerifiedImage
    /// The image number; 0 if the device has one processor.
    public let number: Int

    public init(_ verified: VerifiedImage, number: Int = 0) {
        self.verified = verified
        self.number = number
    }

    var bytes: [UInt8] { verified.bytes }
    /// The SHA-256 of the file. It differs from the digest in the image's records.
    var fileDigest: [UInt8] { verified.fileDigest.bytes }
    var version: String { verified.image.version.description }

    /// The types of the records with a digest: SHA-256, SHA-384 and SHA-512 (mcuboot, `image.h`).
    private static let digestTypes: Set<UInt16> = [0x10, 0x11, 0x12]

    /// The length of a SHA-256, in bytes.
    static let usualDigestLength = 32

    /// Returns the digest in the image's records with this length in bytes; nil: none.
    func digest(ofLength length: Int) -> [UInt8]? {
        verified.image.tlvs.first { Self.digestTypes.contains($0.type) && $0.value.count == length }?.value
    }

    /// Returns whether the first packet of an upload has room for the image's header, its length and its digest.
    ///
    /// - Parameter longest: the maximum length of a packet, in bytes.
    func canBeOpened(inPacketsOf longest: Int) -> Bool {
        let opening = SMPChunk.Opening(length: bytes.count, digest: fileDigest, image: number)
        return SMPChunk.capacity(opening: opening, offset: 0, longest: longest) >= SMPChunk.openingLength
    }
}
