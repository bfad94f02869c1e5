import OTAFirmware
import OTASMP

/// The commands of group 1 (images): the image list, the marks, erasing.
extension SMPServer {
    var list: Fields {
        var images: [IndefiniteCBOR.Value] = []
        if let running = slots.running {
            images.append(entry(running, slot: 0, pending: false, confirmed: slots.isConfirmed, permanent: false))
        }
        // During an upload, Zephyr's server does not list the other slot.
        if reception == nil, let held = slots.held {
            images.append(
                entry(
                    held, slot: 1, pending: slots.isPending, confirmed: !slots.isConfirmed, permanent: slots.isPermanent
                ))
        }
        return [("images", .list(images)), ("splitStatus", .scalar(.unsigned(0)))]
    }

    private func entry(
        _ image: SlotImage, slot: Int, pending: Bool, confirmed: Bool, permanent: Bool
    ) -> IndefiniteCBOR.Value {
        .map([
            ("slot", .scalar(CBORValue(slot))), ("version", .scalar(.text(image.version))),
            ("hash", .scalar(.bytes(image.digest))), ("bootable", .scalar(.bool(image.isBootable))),
            ("pending", .scalar(.bool(pending))), ("confirmed", .scalar(.bool(confirmed))),
            ("active", .scalar(.bool(slot == 0))), ("permanent", .scalar(.bool(permanent))),
        ])
    }

    var slotSizes: Fields {
        let sizes: [IndefiniteCBOR.Value] = [0, 1].map { slot in
            .map([
                ("slot", .scalar(CBORValue(slot))), ("size", .scalar(CBORValue(slots.flash.layout.slotSize))),
                ("upload_image_id", .scalar(CBORValue(slot))),
            ])
        }
        return [("images", .list([.map([("image", .scalar(.unsigned(0))), ("slots", .list(sizes))])]))]
    }

    func setState(_ map: [String: CBORValue]) throws(SMPRefusal) -> Fields {
        let confirm = map["confirm"]?.bool ?? false
        let digest = map["hash"]?.bytes ?? []
        guard digest.count == 32 || digest.isEmpty && confirm else { throw .image(24, first: 3) }
        let isRunning = digest.isEmpty || slots.running?.digest == digest
        if isRunning, !confirm { throw .image(33, first: 1) }
        if isRunning {
            if slots.isPending { throw .image(28, first: 6) }
            try onFlash { () throws(FlashError) in try slots.confirm() }
            return list
        }
        guard let held = slots.held, held.digest == digest else { throw .image(8, first: 1) }
        guard slots.isConfirmed else { throw .image(28, first: 6) }
        if !slots.isPending { try onFlash { () throws(FlashError) in try slots.mark(held, forGood: confirm) } }
        return list
    }

    func erase(_ map: [String: CBORValue]) throws(SMPRefusal) -> Fields {
        let slot = map["slot"]?.integer ?? 1
        if slot == 0 || isInUse { throw .image(9, first: 6) }
        guard slot == 1 else { throw .image(10, first: 1) }
        guard !slots.isEmpty else { throw .image(1, first: 1) }
        reception = nil
        try onFlash { () throws(FlashError) in try slots.erase() }
        return []
    }

    /// Whether the other slot is needed for the next boot or for a rollback.
    var isInUse: Bool { slots.isPending || !slots.isConfirmed }

    func onFlash(_ operation: () throws(FlashError) -> Void) throws(SMPRefusal) {
        do throws(FlashError) {
            try operation()
        } catch {
            throw .flash(error)
        }
    }
}
