import OTAFirmware
import OTASMP
import OTASigning

/// A program of a virtual SMP device with one slot.
enum SMPProgram {
    /// The application in slot 0. It does not support the commands about images.
    case application
    /// The firmware loader. It replaces the image in slot 0.
    case loader
}

/// The commands that a program of a device with one slot handles in its own way, as in sdk-nrf-bm (`img_mgmt.c`, `settings_mgmt.c`).
extension SMPServer {
    private static let nameSetting = "fw_loader/adv_name"
    /// The length of the retained name (`ble_rmem.h`).
    private static let longestName = 16

    /// Returns the answer to a request; nil: both programs handle the request as a device with two slots.
    func answer(
        of program: SMPProgram, _ request: SMPReceivedRequest, _ map: [String: CBORValue]
    ) throws(SMPRefusal) -> Fields? {
        switch (program, request.group, request.command, request.operation) {
        case (_, 0, 8, 0) where map["query"]?.text == "mode": return [("mode", .scalar(.unsigned(7)))]
        case (.application, 3, 0, 2):
            guard configuration.loader?.acceptsName == true else { throw .general(8) }
            guard map["name"]?.text == Self.nameSetting, let name = map["val"]?.bytes, name.count <= Self.longestName
            else { throw .general(3) }
            loaderName.written = name
            return []
        case (.application, 3, 3, 2):
            guard configuration.loader?.acceptsName == true else { throw .general(8) }
            loaderName.saved = loaderName.written
            return []
        case (.application, 1, _, _): throw .general(8)
        case (.loader, 1, 0, 0): return loaderList
        case (.loader, 1, 1, 2): return nil
        case (.loader, 1, _, _), (.loader, 0, 7, _): throw .general(8)
        case (_, 3, _, _): throw .general(8)
        default: return nil
        }
    }

    private var loaderList: Fields {
        let isAlone = configuration.loader?.list == .applicationOnly
        var images: [IndefiniteCBOR.Value] = []
        if let held = slots.held {
            images.append(
                Self.entry(0, held.version, held.digest, confirmed: true, active: isAlone))
        }
        if !isAlone {
            let digest = [UInt8](repeating: 0x4C, count: configuration.loader?.digestLength ?? 32)
            images.append(Self.entry(1, "0.9.0", digest, confirmed: false, active: true))
        }
        return [("images", .list(images)), ("splitStatus", .scalar(.unsigned(0)))]
    }

    private static func entry(
        _ slot: Int, _ version: String, _ digest: [UInt8], confirmed: Bool, active: Bool
    ) -> IndefiniteCBOR.Value {
        let flags = [
            ("bootable", true), ("pending", false), ("confirmed", confirmed), ("active", active), ("permanent", false),
        ]
        return .map(
            [
                ("slot", .scalar(CBORValue(slot))), ("version", .scalar(.text(version))),
                ("hash", .scalar(.bytes(digest))),
            ] + flags.map { ($0.0, .scalar(.bool($0.1))) })
    }
}

/// The boot of a device with one slot.
extension SMPSlots {
    /// Returns what the bootloader starts: the application, or the loader if it was requested or if no trusted key has signed the image in
    /// slot 0. Records a new application.
    static func boot(
        _ flash: VirtualFlash, _ verifier: Verifier, intoLoader: Bool
    ) throws(FlashError) -> (SMPProgram, VirtualBootloader.Boot)? {
        let bootloader = VirtualBootloader(flash: flash)
        guard let image = bootloader.state?.images[0] else { return nil }
        // The loader runs from another place, so the slot for uploads is slot 0.
        let loader = VirtualBootloader.Boot(slot: 1, isOnTrial: false, image: image, permanentCounter: 0)
        guard !intoLoader, let found = SlotImage(flash, slot: 0), found.length <= flash.layout.slotSize else {
            return (.loader, loader)
        }
        let bytes = try flash.withBytes(at: flash.layout.slot(0), count: found.length) { Array($0) }
        guard let file = try? MCUbootFile(parsing: bytes), (try? verifier.verify(file)) != nil else {
            return (.loader, loader)
        }
        let application = BootImage(
            version: found.version, securityCounter: 0, manifestDigest: nil, size: found.length,
            digest: SHA256.digest(of: bytes))
        if application.digest != image.digest { try bootloader.replace(application) }
        return (
            .application, VirtualBootloader.Boot(slot: 0, isOnTrial: false, image: application, permanentCounter: 0)
        )
    }
}
