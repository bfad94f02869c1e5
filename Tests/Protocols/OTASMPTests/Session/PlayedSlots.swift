import OTASMP

/// The slots of a device with one or more images, and the commands that change them.
final class PlayedSlots {
    struct Image {
        var digest: [UInt8]
        var version: String
        var pending = false
        var permanent = false
        var confirmed = true
    }
    private var running: [Int: Image]
    private(set) var others: [Int: Image] = [:]
    /// The slot from which each image runs.
    private let runningSlot: Int
    /// The image numbers whose running image is not listed. A restart installs such an image without a trial, and empties its other slot.
    private let unlisted: Set<Int>
    /// Whether a restart installs only image 0 if image 0 was marked first. The MCUboot of an nRF5340 does this.
    private let skipsOthersAfterMain: Bool
    /// The image numbers of the marks, in the order of their arrival.
    private(set) var marks: [Int] = []
    /// The image that the slot holds after a complete upload, by the SHA-256 of the file.
    private let known: [[UInt8]: Image]
    private var upload: (image: Int, digest: [UInt8], size: Int, offset: Int)?
    private(set) var uploads: [Int] = []
    private(set) var resets = 0

    init(
        running: [Int: Image], others: [Int: Image] = [:], known: [[UInt8]: Image], runningSlot: Int = 0,
        unlisted: Set<Int> = [], skipsOthersAfterMain: Bool = false
    ) {
        self.running = running
        self.unlisted = unlisted
        self.skipsOthersAfterMain = skipsOthersAfterMain
        self.runningSlot = runningSlot
        self.others = others
        self.known = known
    }

    func answer(_ frame: SMPFrame) -> PlayedDevice.Reply {
        let fields = frame.fields
        switch (frame.group, frame.command, frame.operation) {
        case (0, 6, _): return .fields(["buf_size": CBORValue(512), "buf_count": CBORValue(3)])
        case (0, 5, _): return restart()
        case (1, 0, .read): return .fields(list)
        case (1, 0, _): return mark(fields)
        case (1, 1, _): return take(fields)
        default: return .fields(["rc": CBORValue(8)])
        }
    }

    func version(_ image: Int) -> String? { running[image]?.version }
    func isConfirmed(_ image: Int) -> Bool { running[image]?.confirmed ?? false }

    private var list: [String: CBORValue] {
        let images = running.keys.sorted().flatMap { number in
            [(unlisted.contains(number) ? nil : running[number], runningSlot), (others[number], 1 - runningSlot)]
                .compactMap {
                    image, slot -> CBORValue? in
                    guard let image else { return nil }
                    return .map([
                        "image": CBORValue(number), "slot": CBORValue(slot), "version": .text(image.version),
                        "hash": .bytes(image.digest), "active": .bool(slot == runningSlot),
                        "pending": .bool(image.pending),
                        "permanent": .bool(image.permanent), "confirmed": .bool(slot == runningSlot && image.confirmed),
                    ])
                }
        }
        return ["images": .array(images)]
    }

    private func restart() -> PlayedDevice.Reply {
        resets += 1
        for (number, other) in others where other.pending {
            if skipsOthersAfterMain, marks.first == 0, number > 0 { continue }
            others[number] = unlisted.contains(number) ? nil : running[number]
            running[number] = Image(digest: other.digest, version: other.version, confirmed: other.permanent)
        }
        return .fields([:])
    }

    /// Empties the other slot of an image. A bootloader does this with an image that it refuses.
    func refuse(_ number: Int) { others[number] = nil }

    /// Gives the running image 0 another digest. A bootloader that decompresses the image does this.
    func replaceRunningDigest(_ digest: [UInt8]) { running[0]?.digest = digest }

    /// Discards an unfinished upload. A restart of a device has this effect.
    func discardUpload() { upload = nil }

    private func mark(_ fields: [String: CBORValue]) -> PlayedDevice.Reply {
        let confirm = fields["confirm"]?.bool ?? false
        guard let digest = fields["hash"]?.bytes else {
            guard confirm else { return .fields(["err": .map(["group": CBORValue(1), "rc": CBORValue(24)])]) }
            running[0]?.confirmed = true
            return .fields(list)
        }
        for number in running.keys {
            if running[number]?.digest == digest, confirm { running[number]?.confirmed = true }
            if others[number]?.digest == digest {
                marks.append(number)
                others[number]?.pending = true
                others[number]?.permanent = confirm
            }
        }
        return .fields(list)
    }

    private func take(_ fields: [String: CBORValue]) -> PlayedDevice.Reply {
        let data = fields["data"]?.bytes ?? []
        let offset = fields["off"]?.integer ?? -1
        if offset == 0 {
            let number = fields["image"]?.integer ?? 0
            upload = (number, fields["sha"]?.bytes ?? [], fields["len"]?.integer ?? 0, 0)
            uploads.append(number)
            others[number] = nil
        }
        guard var upload, upload.offset == offset else { return .fields(["off": CBORValue(self.upload?.offset ?? 0)]) }
        upload.offset += data.count
        self.upload = upload
        if upload.offset == upload.size {
            others[upload.image] = known[upload.digest]
            self.upload = nil
        }
        return .fields(["off": CBORValue(upload.offset)])
    }
}
