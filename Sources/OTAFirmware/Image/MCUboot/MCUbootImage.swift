/// An image as imgtool signs it for MCUboot (mcuboot, `boot/bootutil/include/bootutil/image.h`). Its parts were
/// measured, and its SHA-256 checked where it has one; a signature is not looked at here.
public struct MCUbootImage: Sendable, Hashable {
    /// The first four bytes: 0x96f3b83d, little-endian.
    package static let magic: [UInt8] = [0x3D, 0xB8, 0xF3, 0x96]

    public let version: Version
    public let loadAddress: UInt32
    /// What lies in front of the body, in bytes, padding included.
    public let headerSize: UInt16
    /// In bytes.
    public let bodySize: UInt32
    public let flags: UInt32
    /// What the digest and the signature cover too.
    public let protectedTLVs: [MCUbootTLV]
    public let tlvs: [MCUbootTLV]
    /// The SHA-256 of header, body and protected TLVs, checked; nil where it could not be.
    public let digest: SHA256Digest?
    /// The length of header, body and protected TLVs, in bytes: what digest and signature cover.
    public let signedLength: UInt64
    /// Where the last TLV ends: what follows is the slot's padding and trailer.
    public let length: UInt64

    /// The body is encrypted, so that nothing but the device can check the digest.
    public var isEncrypted: Bool { flags & MCUbootHeader.encryptionFlags != 0 }

    /// It is not to be started by itself, such as another processor's.
    public var isBootable: Bool { flags & MCUbootHeader.notBootableFlag == 0 }

    /// What the bootloader's rollback protection compares, where the image has it.
    public var securityCounter: UInt32? {
        guard let value = protectedTLVs.first(where: { $0.type == MCUbootTLV.securityCounter })?.value,
            value.count == 4
        else { return nil }
        var reader = ByteReader(value)
        return try? reader.read(UInt32.self)
    }
}
