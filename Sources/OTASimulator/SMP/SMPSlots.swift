import OTAFirmware
import OTASigning

/// The two slots of a device with MCUboot in swap mode. The running image is always reported in slot 0, independently of its slot in the
/// flash.
///
/// The server does not check signatures when it marks an image. The bootloader checks them at the next boot.
struct SMPSlots {
    let flash: VirtualFlash
    let boot: VirtualBootloader.Boot
    private let bootloader: VirtualBootloader

    init(flash: VirtualFlash, boot: VirtualBootloader.Boot) {
        self.flash = flash
        self.boot = boot
        bootloader = VirtualBootloader(flash: flash)
    }

    /// The offset in bytes of the slot without the running image.
    var other: Int { flash.layout.slot(1 - boot.slot) }
    var running: SlotImage? { SlotImage(flash, slot: boot.slot) }
    var held: SlotImage? { SlotImage(flash, slot: 1 - boot.slot) }

    /// Whether the next boot starts the image in the other slot, on trial or permanently.
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

    /// Erases the image for the next boot if no trusted key has signed it. MCUboot does the same before the first boot of an image.
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
