import COTADevice

/// NOR flash: erasing sets bits, writing clears them, and power may go before or in the middle of any of it.
struct Flash {
    enum Cut: CaseIterable { case before, early, middle, late }

    let pageSize: Int
    let writeUnit: Int
    var slot, record: [UInt8]
    /// What was done, for tests that look at the order.
    var operations: [String] = []
    /// What a real flash or its driver would not have stood.
    var violations: [String] = []

    /// Operations until the power goes, and how far the one it meets comes.
    var operationsLeft = Int.max
    var cut = Cut.before
    var hasPower = true
    /// Operations that fail: by what `operations` says of them.
    var failing: (@Sendable (String) -> Bool)?

    init(pageSize: Int, slotSize: Int, writeUnit: Int) {
        self.pageSize = pageSize
        self.writeUnit = writeUnit
        slot = [UInt8](repeating: 0x5A, count: slotSize)
        record = [UInt8](repeating: 0xFF, count: 2 * pageSize)
    }

    subscript(_ area: ota_area) -> [UInt8] {
        get { area == OTA_AREA_SLOT ? slot : record }
        set { if area == OTA_AREA_SLOT { slot = newValue } else { record = newValue } }
    }

    func read(_ area: ota_area, _ offset: Int, _ count: Int) -> [UInt8]? {
        guard hasPower, failing?("read \(area == OTA_AREA_SLOT ? "slot" : "record") \(offset)") != true,
            offset + count <= self[area].count
        else { return nil }
        return Array(self[area][offset..<offset + count])
    }

    mutating func write(_ area: ota_area, _ offset: Int, _ bytes: [UInt8]) -> Bool {
        check(offset % writeUnit == 0 && bytes.count % writeUnit == 0 && !bytes.isEmpty, "misaligned write at \(offset)")
        guard begin("write", area, offset, bytes.count) else { return false }
        check(self[area][offset..<offset + bytes.count].allSatisfy { $0 == 0xFF }, "write on written bytes at \(offset)")
        let done = part(of: bytes.count)
        for i in 0..<done { self[area][offset + i] &= bytes[i] }
        // The byte that was being written: some of its bits.
        if done < bytes.count, hasPower == false, cut != .before { self[area][offset + done] &= bytes[done] | 0xA5 }
        return hasPower
    }

    mutating func erase(_ area: ota_area, _ offset: Int) -> Bool {
        check(offset % pageSize == 0, "misaligned erase at \(offset)")
        guard begin("erase", area, offset, pageSize) else { return false }
        let done = part(of: pageSize)
        for i in 0..<done { self[area][offset + i] = 0xFF }
        if !hasPower, cut != .before { for i in done..<pageSize { self[area][offset + i] |= 0x3C } }
        return hasPower
    }

    /// Counts the operation; false if it does not happen at all.
    private mutating func begin(_ what: String, _ area: ota_area, _ offset: Int, _ count: Int) -> Bool {
        guard hasPower else { return false }
        let operation = "\(what) \(area == OTA_AREA_SLOT ? "slot" : "record") \(offset)"
        guard offset + count <= self[area].count else {
            violations.append("\(operation) beyond the area")
            return false
        }
        operations.append(operation)
        if failing?(operation) == true { return false }
        operationsLeft -= 1
        hasPower = operationsLeft >= 0
        return hasPower || cut != .before
    }

    private func part(of count: Int) -> Int {
        guard !hasPower else { return count }
        switch cut {
        case .before: return 0
        case .early: return 1
        case .middle: return count / 2
        case .late: return count - 1
        }
    }

    private mutating func check(_ holds: Bool, _ violation: String) { if !holds { violations.append(violation) } }
}
