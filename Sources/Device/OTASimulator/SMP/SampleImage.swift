import OTAFirmware
package import OTASigning

/// A small MCUboot image in the format of imgtool, with an optional Ed25519 signature. It is the factory image of virtual SMP devices, and
/// a sample for tests.
package struct SampleImage: Sendable {
    package static let headerLength = 32

    package var version: (major: UInt8, minor: UInt8, revision: UInt16, build: UInt32)
    /// The signing key; nil for an image without a signature.
    package var key: PrivateKey?
    package var body: [UInt8]
    /// The TLVs of the protected area, and further TLVs of the other area, in encoded form.
    package var protectedRecords: [UInt8] = []
    package var otherRecords: [UInt8] = []

    package init(_ version: (UInt8, UInt8, UInt16, UInt32), body: [UInt8], key: PrivateKey?) {
        self.version = version
        self.body = body
        self.key = key
    }

    /// Returns the bytes of the image file.
    package func bytes() throws(KeyError) -> [UInt8] {
        var image = ByteWriter(reservingCapacity: Self.headerLength + body.count + 160)
        image.write(0x96F3_B83D as UInt32)
        image.write(0 as UInt32)
        image.write(UInt16(Self.headerLength))
        let protectedLength = protectedRecords.isEmpty ? 0 : 4 + protectedRecords.count
        image.write(UInt16(protectedLength))
        image.write(UInt32(clamping: body.count))
        image.write(0 as UInt32)
        image.write(version.major)
        image.write(version.minor)
        image.write(version.revision)
        image.write(version.build)
        image.write(0 as UInt32)
        image.write(body)
        if protectedLength > 0 {
            image.write(0x6908 as UInt16)
            image.write(UInt16(protectedLength))
            image.write(protectedRecords)
        }
        let digest = SHA256.digest(of: image.bytes).bytes
        var records = ByteWriter()
        Self.write(MCUbootTLV.sha256, digest, &records)
        records.write(otherRecords)
        if let key {
            Self.write(MCUbootTLV.keyHash, SHA256.digest(of: key.publicKey.subjectPublicKeyInfo).bytes, &records)
            Self.write(MCUbootTLV.ed25519, try key.sign(digest), &records)
        }
        image.write(0x6907 as UInt16)
        image.write(UInt16(4 + records.bytes.count))
        image.write(records.bytes)
        return image.bytes
    }

    private static func write(_ type: UInt16, _ value: [UInt8], _ writer: inout ByteWriter) {
        writer.write(type)
        writer.write(UInt16(value.count))
        writer.write(value)
    }
}
