/// The 32 bytes in front of an MCUboot image.
struct MCUbootHeader {
    static let length: UInt64 = 32
    /// AES-128 and AES-256.
    static let encryptionFlags: UInt32 = 0x4 | 0x8
    static let notBootableFlag: UInt32 = 0x10

    let loadAddress: UInt32
    let headerSize: UInt16
    let protectedTLVSize: UInt16
    let bodySize: UInt32
    let flags: UInt32
    let version: MCUbootImage.Version

    init(_ bytes: [UInt8]) throws(ImageError) {
        var reader = ByteReader(bytes)
        do {
            _ = try reader.read(4)
            loadAddress = try reader.read()
            headerSize = try reader.read()
            protectedTLVSize = try reader.read()
            bodySize = try reader.read()
            flags = try reader.read()
            version = MCUbootImage.Version(
                major: try reader.read(), minor: try reader.read(), revision: try reader.read(),
                build: try reader.read())
        } catch {
            throw ImageError(error)
        }
        guard headerSize >= Self.length else {
            throw ImageError(
                .badImageHeader, offset: 8, expected: "a header of at least 32 bytes", found: "\(headerSize)")
        }
    }

    /// The 32 bytes of a header without flags.
    static func bytes(_ layout: MCUbootLayout, protectedTLVSize: UInt16, bodySize: UInt32) -> [UInt8] {
        var writer = ByteWriter()
        writer.write(MCUbootImage.magic)
        writer.write(UInt32(0))
        writer.write(layout.headerSize)
        writer.write(protectedTLVSize)
        writer.write(bodySize)
        writer.write(UInt32(0))
        writer.write(layout.version.bytes)
        writer.write(UInt32(0))
        return writer.bytes
    }
}
