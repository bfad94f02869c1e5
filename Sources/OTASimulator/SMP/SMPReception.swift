import OTAFirmware

/// The state of a running upload. It is in RAM and is lost with the power. The written bytes stay in the flash.
struct SMPReception {
    let size: Int
    /// The digest from the client. The server resumes an upload with the same digest.
    let digest: [UInt8]
    /// The number of received bytes, including those not yet written because they do not fill a write unit.
    private(set) var offset = 0
    private var unwritten: [UInt8] = []
    /// The number of erased bytes from the start of the slot.
    private var erased: Int

    /// - Parameter erased: whether the slot is already erased.
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
