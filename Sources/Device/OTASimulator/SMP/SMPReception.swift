import OTAFirmware
import OTASMP
import OTASigning

/// The state of an upload in progress. This state is in RAM, so a restart discards it. The written bytes remain in the flash.
struct SMPReception {
    let size: Int
    /// The digest that the host sent for the image. If the host starts an upload with the same digest again, the server resumes this
    /// upload.
    let digest: [UInt8]
    /// The number of received bytes. This number includes bytes that wait in RAM until they fill a write unit.
    private(set) var offset = 0
    private var unwritten: [UInt8] = []
    /// The number of bytes at the start of the slot that are erased or were erased before they were written.
    private var erased: Int

    /// Creates the state of a new upload.
    ///
    /// - Parameter erased: whether the whole slot is already erased.
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

/// The upload command. It reproduces the observed behaviour of Zephyr's `img_mgmt.c`. Each answer contains the expected offset. The server
/// drops a chunk with a different offset without an error.
extension SMPServer {
    private static let headerLength = 32
    private static let magic: [UInt8] = [0x3D, 0xB8, 0xF3, 0x96]

    func upload(_ map: [String: CBORValue], at now: Duration) throws(SMPRefusal) -> Fields {
        guard let offset = map["off"]?.integer else { throw .image(20, first: 3) }
        var data = map["data"]?.bytes ?? []
        var isAccepted = false
        defer {
            if isAccepted { counters.acceptedBytes += data.count } else { counters.refusedBytes += data.count }
        }
        if offset == 0, let answer = try begin(map, data, at: now) { return answer }
        guard var reception else { return [("off", .scalar(.unsigned(0)))] }
        guard offset == reception.offset, !data.isEmpty else { return offsetReply(reception.offset) }
        guard data.count <= reception.size - offset else {
            self.reception = nil
            throw .image(31, first: 1)
        }
        if offset + data.count < reception.size { data.removeLast(data.count % configuration.storedUnit) }
        try onFlash { () throws(FlashError) in
            try reception.take(data, into: slots.other, of: slots.flash)
        }
        isAccepted = true
        self.reception = reception
        guard reception.offset == reception.size else { return offsetReply(reception.offset) }
        self.reception = nil
        return offsetReply(reception.size)
            + (configuration.checksImage ? [("match", .scalar(.bool(matches(reception))))] : [])
    }

    private func offsetReply(_ offset: Int) -> Fields { [("off", .scalar(CBORValue(offset)))] }

    /// Starts a new upload. If the host sends the digest of the current upload again, this function resumes the current upload.
    ///
    /// - Returns: the answer for a resumed upload. Nil for a new upload: the caller must then write the first chunk.
    private func begin(_ map: [String: CBORValue], _ data: [UInt8], at now: Duration) throws(SMPRefusal) -> Fields? {
        guard data.count >= Self.headerLength else { throw .image(22, first: 3, reason: "header malformed") }
        let digest = map["sha"]?.bytes ?? []
        guard digest.count <= 32 else { throw .image(24, first: 3) }
        if let reception, !digest.isEmpty, reception.digest == digest { return offsetReply(reception.offset) }
        guard let size = map["len"]?.integer else { throw .image(21, first: 3) }
        guard data.starts(with: Self.magic) else { throw .image(23, first: 1, reason: "magic mismatch") }
        guard size <= slots.flash.layout.slotSize else { throw .image(30, first: 1, reason: "img too large") }
        if isInUse { throw .image(9, first: 6) }
        if configuration.refusesDowngrade || map["upgrade"]?.bool == true, !isNewer(data) {
            throw .image(27, first: 6, reason: "downgrade")
        }
        let isErased = try eraseAtOnce(at: now)
        reception = SMPReception(
            size: size, digest: digest, slotSize: slots.flash.layout.slotSize, erased: isErased)
        counters.uploads += 1
        return nil
    }

    /// Erases the whole slot if the slot is not empty and the configuration is `Erase.wholeSlot`.
    ///
    /// - Returns: whether the whole slot is now erased.
    private func eraseAtOnce(at now: Duration) throws(SMPRefusal) -> Bool {
        if slots.isEmpty { return true }
        guard case .wholeSlot(let time) = configuration.erase else { return false }
        try onFlash { () throws(FlashError) in try slots.erase() }
        busyUntil = now + time
        return true
    }

    /// Returns whether the version of the uploaded image is newer than the running version. Compares major, minor and revision, but not the
    /// build number. Returns true if a version cannot be read.
    private func isNewer(_ header: [UInt8]) -> Bool {
        var reader = ByteReader(Array(header.dropFirst(20).prefix(4)))
        guard let running = slots.running?.numbers.prefix(3), let major = try? reader.read(UInt8.self),
            let minor = try? reader.read(UInt8.self), let revision = try? reader.read(UInt16.self)
        else { return true }
        return running.lexicographicallyPrecedes([UInt32(major), UInt32(minor), UInt32(revision)])
    }

    private func matches(_ reception: SMPReception) -> Bool {
        let digest = try? slots.flash.withBytes(at: slots.other, count: reception.size) { SHA256.digest(of: $0) }
        return digest?.bytes == reception.digest
    }
}

/// What hosts have done with a virtual SMP device since its creation. A restart does not reset these numbers.
public struct SMPCounters: Sendable, Hashable {
    /// The number of uploads that began with the first chunk. A resumed upload is not counted again.
    public internal(set) var uploads = 0
    /// The number of image bytes that the server has received at the expected offset.
    public internal(set) var acceptedBytes = 0
    /// The number of image bytes that the server has dropped, for example because another host had already sent them.
    public internal(set) var refusedBytes = 0
    /// The number of trials that a host has ended with a confirmation.
    public internal(set) var confirmations = 0
}
