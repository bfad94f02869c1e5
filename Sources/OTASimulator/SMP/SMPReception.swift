import OTAFirmware

/// An upload under way, which lies in RAM and is gone with the power; what it has written stays.
struct SMPReception {
    let size: Int
    /// As the client told it: what an upload is resumed by.
    let digest: [UInt8]
    /// Bytes taken, those that wait for a whole unit to be written among them.
    private(set) var offset = 0
    private var unwritten: [UInt8] = []
    /// Up to here the slot is erased.
    private var erased: Int

    /// - Parameter erased: whether the slot is.
    init(size: Int, digest: [UInt8], slotSize: Int, erased: Bool) {
        self.size = size
        self.digest = digest
        self.erased = erased ? slotSize : 0
    }

    mutating func take(_ data: [UInt8], into slot: Int, of flash: VirtualFlash) throws(FlashError) {
        unwritten += data
        let written = offset + data.count - unwritten.count
        offset += data.count
        let unit = flash.layout.writeUnit
        if offset == size { unwritten += Array(repeating: 0xFF, count: (unit - unwritten.count % unit) % unit) }
        let whole = unwritten.count / unit * unit
        guard whole > 0 else { return }
        while erased < written + whole {
            try flash.erasePage(at: slot + erased)
            erased += flash.layout.pageSize
        }
        try flash.program(Array(unwritten.prefix(whole)), at: slot + written)
        unwritten.removeFirst(whole)
    }
}
