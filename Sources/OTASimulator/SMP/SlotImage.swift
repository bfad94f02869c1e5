import OTAFirmware

/// The properties of an image in a slot that an SMP server reads: the header and the SHA-256 in the TLVs.
///
/// The server computes no digest. It does not list an image with a digest other than SHA-256.
struct SlotImage {
    private static let magic: UInt32 = 0x96F3_B83D
    private static let protectedMagic: UInt16 = 0x6908
    private static let plainMagic: UInt16 = 0x6907

    let version: String
    let numbers: [UInt32]
    let isBootable: Bool
    let digest: [UInt8]
    /// The length up to the end of the last TLV, in bytes.
    let length: Int

    /// Reads the image in a slot. Returns nil if the slot contains no complete image.
    init?(_ flash: VirtualFlash, slot: Int) {
        let size = flash.layout.slotSize
        func read(_ offset: Int, _ count: Int) -> ByteReader? {
            guard offset >= 0, count >= 0, offset + count <= size else { return nil }
            return try? flash.withBytes(at: flash.layout.slot(slot) + offset, count: count) { ByteReader(Array($0)) }
        }
        guard var header = read(0, SampleImage.headerLength) else { return nil }
        do {
            guard try header.read(UInt32.self) == Self.magic else { return nil }
            _ = try header.read(UInt32.self)
            let headerSize = Int(try header.read(UInt16.self))
            let protected = Int(try header.read(UInt16.self))
            let bodySize = Int(try header.read(UInt32.self))
            isBootable = try header.read(UInt32.self) & 0x10 == 0
            let (major, minor) = (try header.read(UInt8.self), try header.read(UInt8.self))
            let (revision, build) = (try header.read(UInt16.self), try header.read(UInt32.self))
            numbers = [UInt32(major), UInt32(minor), UInt32(revision), build]
            version = "\(major).\(minor).\(revision)" + (build == 0 ? "" : ".\(build)")
            var offset = headerSize + bodySize
            if protected > 0 {
                guard var area = read(offset, 4), try area.read(UInt16.self) == Self.protectedMagic else { return nil }
                offset += protected
            }
            guard var area = read(offset, 4), try area.read(UInt16.self) == Self.plainMagic else { return nil }
            let total = Int(try area.read(UInt16.self))
            guard total >= 4, var records = read(offset + 4, total - 4) else { return nil }
            var digest: [UInt8]?
            while records.remaining > 0 {
                let type = try records.read(UInt16.self)
                let value = try records.read(Int(try records.read(UInt16.self)))
                if type == MCUbootTLV.sha256, value.count == 32 { digest = Array(value) }
            }
            guard let digest else { return nil }
            self.digest = digest
            length = offset + total
        } catch {
            return nil
        }
    }
}
