public import OTAFirmware
import OTASigning

/// A bootloader that selects the slot to boot, as ESP-IDF's bootloader does with its `otadata` partition. An image on trial boots once. If
/// the image is not confirmed, the next boot rolls back.
///
/// Two pages of the flash contain the bootloader's state. Each change appends one record, so a power cut leaves either the old state or the
/// new state. When a page is full, the bootloader erases the other page and writes the next record there.
public struct VirtualBootloader {
    /// The image that the bootloader selected for one boot.
    public struct Boot: Sendable, Equatable {
        /// The slot of the image: 0 or 1.
        public var slot: Int
        public var isOnTrial: Bool
        public var image: BootImage
        /// The security counter of the permanent image. During a trial, this is not the counter of `image`, because `image` is not
        /// permanent yet.
        public var permanentCounter: UInt32
    }

    private let flash: VirtualFlash

    public init(flash: VirtualFlash) { self.flash = flash }

    /// The newest state in the flash; nil if the flash contains no valid record.
    public var state: BootState? { newest?.record.state }

    /// Writes an image to slot 0 of an erased flash and makes the image permanent.
    public func install(
        _ image: [UInt8], version: SemanticVersion, securityCounter: UInt32
    ) throws(FlashError) {
        let unit = flash.layout.writeUnit
        let padded = image + Array(repeating: 0xFF, count: (unit - image.count % unit) % unit)
        try flash.program(padded, at: flash.layout.slot(0))
        let factory = BootImage(
            version: version.text, securityCounter: securityCounter, manifestDigest: nil, size: image.count,
            digest: SHA256.digest(of: image))
        try append(BootState(permanent: 0, trial: .none, images: [factory, nil]))
    }

    /// Selects the image to boot after a power-up or a restart.
    ///
    /// The bootloader records the start of a trial before the image runs. Therefore every restart without `confirm` or `renewTrial` rolls
    /// back.
    ///
    /// - Returns: the selected image. Nil if the flash contains no state, or if no slot contains an image with the recorded digest.
    public func boot() throws(FlashError) -> Boot? {
        guard var state else { return nil }
        if state.trial == .pending, let image = try intactImage(state, in: state.other) {
            state.trial = .running
            try append(state)
            return Boot(
                slot: state.other, isOnTrial: true, image: image,
                permanentCounter: state.images[state.permanent]?.securityCounter ?? 0)
        }
        if state.trial != .none {
            state.trial = .none
            try append(state)
        }
        if try intactImage(state, in: state.permanent) == nil, try intactImage(state, in: state.other) != nil {
            state.permanent = state.other
            try append(state)
        }
        guard let image = try intactImage(state, in: state.permanent) else { return nil }
        return Boot(slot: state.permanent, isOnTrial: false, image: image, permanentCounter: image.securityCounter)
    }

    /// Marks the image in the slot `BootState.other` for the next boot. Does nothing if the flash contains no state.
    ///
    /// - Parameter forGood: true makes the image permanent; false boots the image on trial.
    public func mark(_ image: BootImage, forGood: Bool) throws(FlashError) {
        guard var state else { return }
        state.images[state.other] = image
        if forGood {
            state.permanent = state.other
            state.trial = .none
        } else {
            state.trial = .pending
        }
        try append(state)
    }

    /// Records another image in slot 0 as the permanent image. Only for a device with one slot. Does nothing if the flash contains no state.
    func replace(_ image: BootImage) throws(FlashError) {
        guard var state else { return }
        (state.images[0], state.permanent, state.trial) = (image, 0, .none)
        try append(state)
    }

    /// Makes the image on trial permanent. Does nothing if no image runs on trial.
    public func confirm() throws(FlashError) {
        guard var state, state.trial == .running else { return }
        state.permanent = state.other
        state.trial = .none
        try append(state)
    }

    /// Allows the image on trial to boot on trial once more. Does nothing if no image runs on trial.
    public func renewTrial() throws(FlashError) {
        guard var state, state.trial == .running else { return }
        state.trial = .pending
        try append(state)
    }

    /// The bytes of the image that is marked for a trial at the next boot. Nil if no trial is pending or the flash cannot be read.
    var markedImage: [UInt8]? {
        guard let state, state.trial == .pending, let image = state.images[state.other] else { return nil }
        return try? flash.withBytes(at: flash.layout.slot(state.other), count: image.size) { Array($0) }
    }

    private func intactImage(_ state: BootState, in slot: Int) throws(FlashError) -> BootImage? {
        guard let image = state.images[slot], image.size <= flash.layout.slotSize else { return nil }
        let digest = try flash.withBytes(at: flash.layout.slot(slot), count: image.size) { SHA256.digest(of: $0) }
        return digest == image.digest ? image : nil
    }

    private var newest: (record: BootRecord, offset: Int)? {
        let area = flash.layout.bootRecords..<flash.layout.coreRecords
        var newest: (record: BootRecord, offset: Int)?
        // The search starts at the end, because the last record in a page is the newest record of the page. `BootRecord` then returns nil
        // for all older records and does not calculate their CRC. This order saves time.
        for offset in stride(from: area.lowerBound, to: area.upperBound, by: BootRecord.size).reversed() {
            let record = try? flash.withBytes(at: offset, count: BootRecord.size) {
                BootRecord($0, newerThan: newest?.record.generation)
            }
            if let record { newest = (record, offset) }
        }
        return newest
    }

    private func append(_ state: BootState) throws(FlashError) {
        let pageSize = flash.layout.pageSize
        let last = newest
        let page = last.map { $0.offset / pageSize } ?? 1
        let record = BootRecord(generation: (last?.record.generation ?? 0) &+ 1, state: state)
        if let place = try firstErasedPlace(after: last?.offset, in: page) {
            return try write(record, at: place)
        }
        let otherPage = (1 - page) * pageSize
        try flash.erasePage(at: otherPage)
        try write(record, at: otherPage)
    }

    /// Writes a record, reads the record back, and compares the bytes.
    ///
    /// - Throws: `failed` if the bytes differ, so that `mark` and `confirm` report the failure.
    private func write(_ record: BootRecord, at offset: Int) throws(FlashError) {
        try flash.program(record.bytes, at: offset)
        let isThere = try flash.withBytes(at: offset, count: BootRecord.size) { $0.elementsEqual(record.bytes) }
        guard isThere else { throw .failed }
    }

    /// Returns the offset of the first erased space for a record in `page`. The search starts after the newest record, which is at
    /// `offset`. The search skips incomplete records, because a power cut can leave such records. Returns nil if `page` is full or `offset`
    /// is nil.
    private func firstErasedPlace(after offset: Int?, in page: Int) throws(FlashError) -> Int? {
        guard let offset else { return nil }
        let end = (page + 1) * flash.layout.pageSize
        for place in stride(from: offset + BootRecord.size, to: end, by: BootRecord.size) {
            if try flash.withBytes(at: place, count: BootRecord.size, { $0.allSatisfy { $0 == 0xFF } }) { return place }
        }
        return nil
    }
}
