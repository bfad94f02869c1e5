import OTAFirmware
public import OTASigning

/// An image to be pushed, and for which of a device's processors it is.
public struct SMPImage: Sendable {
    public let verified: VerifiedImage
    /// 0 where the device has one.
    public let number: Int

    public init(_ verified: VerifiedImage, number: Int = 0) {
        self.verified = verified
        self.number = number
    }

    var bytes: [UInt8] { verified.bytes }
    /// Of the file, not of the image.
    var fileDigest: [UInt8] { verified.fileDigest.bytes }
    var version: String { verified.image.version.description }

    /// Digests that a device may know it by: trailer records of SHA-256, SHA-384 and SHA-512 (mcuboot, `image.h`).
    private static let digestTypes: Set<UInt16> = [0x10, 0x11, 0x12]

    /// SHA-256.
    static let usualDigestLength = 32

    /// The digest by which a device lists it whose digests have so many bytes; nil: it has none of that length.
    func digest(ofLength length: Int) -> [UInt8]? {
        verified.image.tlvs.first { Self.digestTypes.contains($0.type) && $0.value.count == length }?.value
    }

    /// An upload's first packet, of at most so many bytes, has room for the image's header beside length and digest.
    func canBeOpened(inPacketsOf longest: Int) -> Bool {
        let opening = SMPChunk.Opening(length: bytes.count, digest: fileDigest, image: number)
        return SMPChunk.capacity(opening: opening, offset: 0, longest: longest) >= SMPChunk.openingLength
    }
}
