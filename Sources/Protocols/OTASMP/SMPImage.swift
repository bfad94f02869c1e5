import OTAFirmware
public import OTASigning

/// A verified MCUboot image to push over SMP, with its image number.
public struct SMPImage: Sendable {
    /// The image, which a trusted key or the user's consent authorizes.
    public let verified: VerifiedImage
    /// The image number of MCUboot, such as 0 for the main processor and 1 for the network processor; 0 on a device with one image.
    public let number: Int

    /// Creates an image to push.
    ///
    /// - Parameter number: the image number; 0 on a device with one image.
    public init(_ verified: VerifiedImage, number: Int = 0) {
        self.verified = verified
        self.number = number
    }

    var bytes: [UInt8] { verified.bytes }
    /// The SHA-256 of the whole file. The digest in the image's TLVs is another digest, which covers only a part of the file.
    var fileDigest: [UInt8] { verified.fileDigest.bytes }
    var version: String { verified.image.version.description }

    /// Returns whether an image list has this version for the image.
    func hasVersion(_ listed: String) -> Bool { SMPVersion(listed) == SMPVersion(verified.image.version) }

    /// Returns whether a version is that of the image, without the build number. Programs report versions of their own without MCUboot's build
    /// number.
    func hasRelease(_ version: String) -> Bool {
        let own = verified.image.version
        let release = "\(own.major).\(own.minor).\(own.revision)"
        return version == release || hasVersion(version)
    }

    /// The types of the TLVs (type-length-value records) with a SHA-256, a SHA-384 or a SHA-512 digest (MCUboot, `image.h`).
    private static let digestTypes: Set<UInt16> = [0x10, 0x11, 0x12]

    /// The length in bytes of the digest in most images, which is a SHA-256.
    static let usualDigestLength = 32

    /// True if the TLVs have a digest of any length.
    var hasDigest: Bool { verified.image.tlvs.contains { Self.digestTypes.contains($0.type) } }

    /// Returns the digest with this length in bytes from the image's TLVs; nil if no digest in the TLVs has this length.
    func digest(ofLength length: Int) -> [UInt8]? {
        verified.image.tlvs.first { Self.digestTypes.contains($0.type) && $0.value.count == length }?.value
    }

    /// The digest of the image that runs after the bootloader has decompressed it; nil if the image is not compressed.
    ///
    /// A bootloader that decompresses an image writes this digest into the TLVs of the running image (nRF Connect SDK,
    /// `boot/zephyr/decompression.c`, `boot_copy_unprotected_tlvs`). The TLV is protected, so the image's signature covers it. An encrypted
    /// image needs no such digest: its digest covers the plain bytes, and MCUboot copies its TLVs unchanged (`encrypted_images.md`).
    var unpackedDigest: [UInt8]? {
        verified.image.protectedTLVs.first { $0.type == MCUbootTLV.unpackedDigest }?.value
    }

    /// Returns whether the first packet of an upload has room for the file's length, the file's digest and the image's header.
    ///
    /// - Parameter longest: the maximum length of a packet in bytes.
    func canBeOpened(inPacketsOf longest: Int) -> Bool {
        let opening = SMPChunk.Opening(length: bytes.count, digest: fileDigest, image: number)
        return SMPChunk.capacity(opening: opening, offset: 0, longest: longest) >= SMPChunk.openingLength
    }
}
