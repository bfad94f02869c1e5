import COTADevice

/// NOR flash: an erase sets bits and a write clears them. The power can be cut before or during each operation.
struct Flash {
    enum Cut: CaseIterable { case before, early, middle, late }

    let pageSize: Int
    let writeUnit: Int
    var slot, record: [UInt8]
    /// The slot of the running image, which the core only reads.
    var base: [UInt8] = []
    /// The numbers of read operations and of read bytes.
    var readCount = 0
    var readByteCount = 0
    /// The operations in their order.
    var operations: [String] = []
    /// Operations that a real flash or its driver does not permit.
    var violations: [String] = []

    /// Digests and offsets of the written records, and of the record whose write the power cut interrupted.
    var records: [Record] = []
    var tornRecord: Record?

    struct Record: Equatable {
        var digest: [UInt8]
        var offset: Int
    }

    /// The number of operations before the power cut, and the progress of the interrupted operation.
    var operationsLeft = Int.max
    var cut = Cut.before
    var hasPower = true
    /// If this returns true for an erase, the power is cut right after the erase. The argument is the name in `operations`.
    var cutAfterErase: (@Sendable (String) -> Bool)?
    /// Operations that fail while the power is on, by their names in `operations`, and how erases and writes fail.
    var failing: (@Sendable (String) -> Bool)?
    var failure = Failure.withoutTrace
    private var currentFailure: Failure?

    enum Failure: CaseIterable {
        /// The operation changes nothing.
        case withoutTrace
        /// Half of the bytes are written, or half of the page is erased.
        case halfway
        /// The operation is complete, but reported as failed.
        case afterwards
        /// The operation is wrong, but reported as success: one bit is not cleared, or half of the page is not erased.
        case silently
    }

    init(pageSize: Int, slotSize: Int, writeUnit: Int) {
        self.pageSize = pageSize
        self.writeUnit = writeUnit
        slot = [UInt8](repeating: 0x5A, count: slotSize)
        record = [UInt8](repeating: 0xFF, count: 2 * pageSize)
    }

    private func name(_ area: ota_area) -> String {
        switch area {
        case OTA_AREA_SLOT: "slot"
        case OTA_AREA_RECORD: "record"
        default: "base"
        }
    }

    private func contents(_ area: ota_area) -> [UInt8] {
        switch area {
        case OTA_AREA_SLOT: slot
        case OTA_AREA_RECORD: record
        default: base
        }
    }

    private mutating func change(
        _ area: ota_area, _ range: Range<Int>, _ change: (UnsafeMutableBufferPointer<UInt8>) -> Void
    ) {
        if area == OTA_AREA_SLOT {
            slot.withUnsafeMutableBufferPointer { change(UnsafeMutableBufferPointer(rebasing: $0[range])) }
        } else {
            record.withUnsafeMutableBufferPointer { change(UnsafeMutableBufferPointer(rebasing: $0[range])) }
        }
    }

    mutating func read(_ area: ota_area, _ offset: Int, _ bytes: UnsafeMutableBufferPointer<UInt8>) -> Bool {
        let contents = contents(area)
        readCount += 1
        readByteCount += bytes.count
        check(offset + bytes.count <= contents.count, "read \(name(area)) \(offset) beyond the area")
        guard hasPower, failing?("read \(name(area)) \(offset)") != true, offset + bytes.count <= contents.count
        else { return false }
        _ = bytes.update(fromContentsOf: contents[offset..<offset + bytes.count])
        return true
    }

    mutating func write(_ area: ota_area, _ offset: Int, _ bytes: [UInt8]) -> Bool {
        check(
            offset % writeUnit == 0 && bytes.count % writeUnit == 0 && !bytes.isEmpty, "misaligned write at \(offset)")
        guard begin("write", area, offset, bytes.count) else { return false }
        if area == OTA_AREA_RECORD {
            let record = Record(digest: Array(bytes[8..<40]), offset: Int(number(bytes[40..<44])))
            if !hasPower { tornRecord = record } else if currentFailure == nil { records.append(record) }
        }
        let done = part(of: bytes.count)
        // Of the byte at the power cut only some bits are written.
        let torn = done < bytes.count && !hasPower && cut != .before ? done : nil
        let wrong = currentFailure == .silently ? bytes.firstIndex { $0 != 0xFF } : nil
        var isErased = true
        change(area, offset..<offset + bytes.count) { flash in
            isErased = flash.allSatisfy { $0 == 0xFF }
            for i in 0..<done { flash[i] &= bytes[i] }
            if let torn { flash[torn] &= bytes[torn] | 0xA5 }
            if let wrong { flash[wrong] |= flash[wrong] + 1 }
        }
        check(isErased, "write on written bytes at \(offset)")
        return hasPower && (currentFailure ?? .silently) == .silently
    }

    mutating func erase(_ area: ota_area, _ offset: Int) -> Bool {
        check(offset % pageSize == 0, "misaligned erase at \(offset)")
        guard begin("erase", area, offset, pageSize) else { return false }
        let done = currentFailure == .silently ? pageSize / 2 : part(of: pageSize)
        change(area, offset..<offset + pageSize) { flash in
            for i in 0..<flash.count { flash[i] = i < done ? 0xFF : flash[i] | 0x3C }
        }
        if let cutAfterErase, cutAfterErase("erase \(name(area)) \(offset)") { hasPower = false }
        return hasPower && (currentFailure ?? .silently) == .silently
    }

    /// Counts the operation. Returns false if the operation does not start.
    private mutating func begin(_ what: String, _ area: ota_area, _ offset: Int, _ count: Int) -> Bool {
        guard hasPower else { return false }
        let operation = "\(what) \(name(area)) \(offset)"
        check(area != OTA_AREA_BASE, "\(operation) changes the running image")
        guard offset + count <= contents(area).count else {
            violations.append("\(operation) beyond the area")
            return false
        }
        operations.append(operation)
        currentFailure = failing?(operation) == true ? failure : nil
        if currentFailure == .withoutTrace { return false }
        operationsLeft -= 1
        hasPower = operationsLeft >= 0
        return hasPower || cut != .before
    }

    private func part(of count: Int) -> Int {
        guard !hasPower else {
            return currentFailure == .halfway ? count / 2 : count
        }
        switch cut {
        case .before: return 0
        case .early: return 1
        case .middle: return count / 2
        case .late: return count - 1
        }
    }

    private mutating func check(_ holds: Bool, _ violation: String) { if !holds { violations.append(violation) } }
}
