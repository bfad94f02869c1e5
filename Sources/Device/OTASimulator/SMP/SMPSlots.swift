import OTAFirmware
import OTASigning

/// The two slots of a device with MCUboot in swap mode. MCUboot moves an image to slot 0 and then boots the image. Therefore the server
/// always reports the running image in slot 0. The virtual bootloader does not move images, so the running image may be in slot 1 of the
/// flash.
///
/// The server marks an image for boot without a check of the signature. The bootloader checks the signature at the next boot.
struct SMPSlots {
    let flash: VirtualFlash
    let boot: VirtualBootloader.Boot
    private let bootloader: VirtualBootloader

    init(flash: VirtualFlash, boot: VirtualBootloader.Boot) {
        self.flash = flash
        self.boot = boot
        bootloader = VirtualBootloader(flash: flash)
    }

    /// The offset in bytes of the slot that does not contain the running image.
    var other: Int { flash.layout.slot(1 - boot.slot) }
    var running: SlotImage? { SlotImage(flash, slot: boot.slot) }
    var held: SlotImage? { SlotImage(flash, slot: 1 - boot.slot) }

    /// True if the image in the slot at `other` is marked for the next boot, on trial or permanently.
    var isPending: Bool { isPermanent || bootloader.state?.trial == .pending }
    var isPermanent: Bool { bootloader.state.map { $0.permanent != boot.slot && $0.trial == .none } ?? false }
    var isConfirmed: Bool { !boot.isOnTrial || bootloader.state?.trial != .running }

    var isEmpty: Bool {
        (try? flash.withBytes(at: other, count: flash.layout.slotSize) { $0.allSatisfy { $0 == 0xFF } }) ?? false
    }

    func erase() throws(FlashError) {
        for page in stride(from: 0, to: flash.layout.slotSize, by: flash.layout.pageSize) {
            try flash.erasePage(at: other + page)
        }
    }

    func confirm() throws(FlashError) { try bootloader.confirm() }

    func mark(_ image: SlotImage, forGood: Bool) throws(FlashError) {
        let digest = try flash.withBytes(at: other, count: image.length) { SHA256.digest(of: $0) }
        try bootloader.mark(
            BootImage(
                version: image.version, securityCounter: 0, manifestDigest: nil, size: image.length, digest: digest),
            forGood: forGood)
    }

    /// Checks the signature of the image that the next boot selects. If no trusted key has signed this image, this function erases the slot
    /// of the image, as MCUboot does.
    static func refuseForeignImages(on flash: VirtualFlash, _ verifier: Verifier) throws(FlashError) {
        guard let state = VirtualBootloader(flash: flash).state else { return }
        let next = state.trial == .pending ? state.other : state.permanent
        guard let image = state.images[next], image.size <= flash.layout.slotSize else { return }
        let bytes = try flash.withBytes(at: flash.layout.slot(next), count: image.size) { Array($0) }
        if let file = try? MCUbootFile(parsing: bytes), (try? verifier.verify(file)) != nil { return }
        for page in stride(from: 0, to: flash.layout.slotSize, by: flash.layout.pageSize) {
            try flash.erasePage(at: flash.layout.slot(next) + page)
        }
    }
}

/// The properties of an image in a slot, from the image's header and TLVs (type, length, value).
///
/// The server does not compute the digest, but reads the digest from the SHA-256 TLV. The server does not list an image without this TLV.
struct SlotImage {
    private static let magic: UInt32 = 0x96F3_B83D
    private static let protectedMagic: UInt16 = 0x6908
    private static let plainMagic: UInt16 = 0x6907

    let version: String
    let numbers: [UInt32]
    let isBootable: Bool
    let digest: [UInt8]
    /// The length of the image in bytes, from the header to the end of the last TLV.
    let length: Int

    /// Reads the properties of the image in a slot. Returns nil if the slot contains no complete image, or if the image has no SHA-256.
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
