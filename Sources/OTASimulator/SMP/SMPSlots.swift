import OTAFirmware
import OTASigning

/// The two slots of a device that boots through MCUboot with swap: the running image is always in slot 0, wherever it lies
/// in the flash. Whoever marks an image is not asked who signed it; the bootloader is, at the next start.
struct SMPSlots {
    let flash: VirtualFlash
    let boot: VirtualBootloader.Boot
    private let bootloader: VirtualBootloader

    init(flash: VirtualFlash, boot: VirtualBootloader.Boot) {
        self.flash = flash
        self.boot = boot
        bootloader = VirtualBootloader(flash: flash)
    }

    /// Where the slot that does not run begins, in bytes.
    var other: Int { flash.layout.slot(1 - boot.slot) }
    var running: SlotImage? { SlotImage(flash, slot: boot.slot) }
    var held: SlotImage? { SlotImage(flash, slot: 1 - boot.slot) }

    /// The image in the other slot is started next: once, or for good.
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

    /// What MCUboot does before it starts an image for the first time: one that none of its keys has signed is erased.
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
