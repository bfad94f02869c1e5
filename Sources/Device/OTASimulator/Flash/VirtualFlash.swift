import Glibc
import OTAUpdate
public import SystemPackage

/// A simulated NOR flash with power cuts and faults. An erase sets all bytes of a page to 0xFF. Firmware may write only to erased bytes.
///
/// If the flash has a file, each write and each erase changes the file immediately. Therefore the end of the process has the same effect as
/// a power cut.
public final class VirtualFlash {
    public let layout: FlashLayout

    /// The number of writes and erases since the creation of this object. Operations that a power cut interrupted are counted, too.
    public private(set) var operationCount = 0
    /// The number of bytes that were written since the creation of this object. Erased bytes are not counted.
    private(set) var writtenByteCount = 0
    /// The number of violations (see ``FlashError``). Correct firmware causes no violation.
    public private(set) var violationCount = 0
    /// The scheduled power cuts. The flash removes each power cut when the power cut happens.
    public var powerCuts: [PowerCut] = []
    /// The scheduled faults. The flash removes each fault when the fault happens.
    public var faults: [FlashFault] = []
    /// The operation numbers (`operationCount`) of worn writes. A worn write stores one wrong bit and reports success, as a worn flash
    /// does. A number has an effect only if the operation with this number is a write to a slot.
    var wornPrograms: Set<Int> = []
    /// Whether the flash has power. A power cut sets the value to false. The owner of the flash sets the value to true when the power
    /// returns.
    public var isPowered = true

    private let bytes: UnsafeMutableRawBufferPointer
    private let file: FileDescriptor?
    private var garbage = SplitMix64(seed: 0x6A6B)

    /// Creates an erased flash in memory.
    public init(layout: FlashLayout = FlashLayout()) {
        self.layout = layout
        self.file = nil
        bytes = .allocate(byteCount: layout.size, alignment: 16)
        _ = bytes.initializeMemory(as: UInt8.self, repeating: 0xFF)
    }

    /// Creates a flash with the contents of an open file of exactly `layout.size` bytes. The flash closes the file when the flash is
    /// deallocated.
    ///
    /// - Throws: `invalidArgument` if the file does not have `layout.size` bytes; `ioError` if the file becomes shorter during the read;
    ///   the `Errno` of a failed read.
    public init(layout: FlashLayout, file: FileDescriptor) throws(Errno) {
        self.layout = layout
        self.file = file
        bytes = .allocate(byteCount: layout.size, alignment: 16)
        _ = bytes.initializeMemory(as: UInt8.self, repeating: 0xFF)
        guard lseek(file.rawValue, 0, SEEK_END) == layout.size else { throw .invalidArgument }
        var filled = 0
        while filled < bytes.count {
            let count = pread(file.rawValue, bytes.baseAddress?.advanced(by: filled), bytes.count - filled, filled)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw count < 0 ? Errno(rawValue: errno) : .ioError }
            filled += count
        }
    }

    deinit {
        bytes.deallocate()
        try? file?.close()
    }

    /// Schedules power cuts and worn writes. The operation numbers count from this call: 1 is the next operation.
    ///
    /// - Parameter worn: the operation numbers of the worn writes (`wornPrograms`).
    /// - Returns: the number of operations so far.
    func schedule(_ cuts: [PowerCut], worn: [Int]) -> Int {
        wornPrograms.formUnion(worn.map { operationCount + $0 })
        powerCuts += cuts.map { PowerCut(operation: operationCount + $0.operation, moment: $0.moment) }
        return operationCount
    }

    /// Schedules faults. The operation numbers count from this call: 1 is the next operation.
    func schedule(_ faults: [FlashFault]) {
        self.faults += faults.map { FlashFault(operation: operationCount + $0.operation, kind: $0.kind) }
    }

    /// Reads bytes from `offset` until the buffer is full.
    public func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws(FlashError) {
        guard isPowered else { throw .noPower }
        buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[try range(offset, buffer.count)]))
    }

    /// Calls `body` with `count` bytes of the flash from `offset`, without a copy. The pointer is valid only during the call.
    public func withBytes<Result>(
        at offset: Int, count: Int, _ body: (UnsafeRawBufferPointer) -> Result
    ) throws(FlashError) -> Result {
        guard isPowered else { throw .noPower }
        return body(UnsafeRawBufferPointer(rebasing: bytes[try range(offset, count)]))
    }

    public func program(_ new: [UInt8], at offset: Int) throws(FlashError) {
        try new.withUnsafeBufferPointer { (new) throws(FlashError) in
            try program(UnsafeRawBufferPointer(new), at: offset)
        }
    }

    /// Writes `new` to erased bytes of the flash. The offset and the number of bytes must be multiples of the write unit.
    public func program(_ new: UnsafeRawBufferPointer, at offset: Int) throws(FlashError) {
        guard isPowered else { throw .noPower }
        let range = try range(offset, new.count, alignment: layout.writeUnit)
        let cut = nextOperation()
        if cut == .before { throw .noPower }
        let fault = takeFault()
        if fault == .withoutTrace { throw .failed }
        let written = cut == .during || fault == .halfway ? range.prefix(range.count / 2) : range
        writtenByteCount += written.count
        let wasErased = bytes[written].allSatisfy { $0 == 0xFF }
        for (index, byte) in zip(written, new) { bytes[index] &= byte }
        let isWorn = wornPrograms.contains(operationCount) && range.lowerBound >= layout.slot(0)
        // An empty write has no byte that could be wrong.
        if isWorn || fault == .silently, !range.isEmpty { bytes[range.lowerBound] ^= 1 }
        try store(written)
        if !wasErased { throw violation(.notErased) }
        if cut != nil { throw .noPower }
        if let fault, fault != .silently { throw .failed }
    }

    /// Erases the page that starts at `offset`.
    public func erasePage(at offset: Int) throws(FlashError) {
        guard isPowered else { throw .noPower }
        let range = try range(offset, layout.pageSize, alignment: layout.pageSize)
        let cut = nextOperation()
        if cut == .before { throw .noPower }
        let fault = takeFault()
        if fault == .withoutTrace { throw .failed }
        _ = UnsafeMutableRawBufferPointer(rebasing: bytes[range]).initializeMemory(as: UInt8.self, repeating: 0xFF)
        if cut == .during || fault == .halfway || fault == .silently {
            for index in range.suffix(range.count / 2) { bytes[index] = UInt8(truncatingIfNeeded: garbage.next()) }
        }
        try store(range)
        if cut != nil { throw .noPower }
        if let fault, fault != .silently { throw .failed }
    }

    /// Removes the scheduled fault of the current operation from `faults` and returns the fault's kind. Returns nil if no fault is
    /// scheduled.
    private func takeFault() -> FlashFault.Kind? {
        faults.firstIndex { $0.operation == operationCount }.map { faults.remove(at: $0).kind }
    }

    private func range(_ offset: Int, _ count: Int, alignment: Int = 1) throws(FlashError) -> Range<Int> {
        guard 0...bytes.count ~= offset, count <= bytes.count - offset else { throw violation(.outside) }
        guard offset % alignment == 0, count % alignment == 0 else { throw violation(.unaligned) }
        return offset..<offset + count
    }

    private func violation(_ error: FlashError) -> FlashError {
        violationCount += 1
        return error
    }

    /// Counts an operation. Switches the power off if a power cut is scheduled for the operation.
    ///
    /// - Returns: the moment of the power cut; nil if no power cut is scheduled.
    private func nextOperation() -> PowerCut.Moment? {
        operationCount += 1
        guard let index = powerCuts.firstIndex(where: { $0.operation == operationCount }) else { return nil }
        isPowered = false
        return powerCuts.remove(at: index).moment
    }

    private func store(_ range: Range<Int>) throws(FlashError) {
        guard let file else { return }
        var rest = range
        while !rest.isEmpty {
            let count = pwrite(
                file.rawValue, bytes.baseAddress?.advanced(by: rest.lowerBound), rest.count, rest.lowerBound)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw .notStored(errno: errno) }
            rest = rest.lowerBound + count..<rest.upperBound
        }
    }
}

/// The layout of a virtual flash. It contains two pages of boot records, two pages of the device core's records, and two slots, in this
/// order.
public struct FlashLayout: Sendable, Equatable {
    /// The size of a page in bytes. One erase operation erases one page.
    public let pageSize: Int
    /// The size of each of the two slots in bytes, a multiple of the page size.
    public let slotSize: Int
    /// The write unit in bytes. The offset and the length of each write must be multiples of the write unit.
    public let writeUnit: Int

    public init(pageSize: Int = 4096, slotSize: Int = 2 << 20, writeUnit: Int = 4) {
        self.pageSize = pageSize
        self.slotSize = slotSize
        self.writeUnit = writeUnit
    }

    public var size: Int { 4 * pageSize + 2 * slotSize }

    /// The offset of the boot records in bytes. The boot records fill two pages.
    var bootRecords: Int { 0 }
    /// The offset of the device core's records in bytes. The core's records fill two pages.
    var coreRecords: Int { 2 * pageSize }
    /// Returns the offset of slot 0 or slot 1 in bytes.
    package func slot(_ index: Int) -> Int { 4 * pageSize + index * slotSize }
}

extension FlashLayout {
    /// Checks the page size, the write unit and the slot size.
    ///
    /// - Throws: `badConfiguration` for the first value that is out of range.
    func validate() throws(VirtualDeviceError) {
        guard 512...65536 ~= pageSize && pageSize.isMultiple(of: 512) else {
            throw VirtualDeviceError(
                .badConfiguration,
                "the page size is \(pageSize) bytes; expected a multiple of 512 from 512 to 65536")
        }
        guard [1, 2, 4, 8, 16, 32, 64].contains(writeUnit) else {
            throw VirtualDeviceError(
                .badConfiguration, "the write unit is \(writeUnit) bytes; expected 1, 2, 4, 8, 16, 32 or 64")
        }
        guard pageSize...(64 << 20) ~= slotSize && slotSize.isMultiple(of: pageSize) else {
            throw VirtualDeviceError(
                .badConfiguration,
                "the slot size is \(slotSize) bytes; expected a multiple of the page size (\(pageSize)), at most 64 MiB"
            )
        }
    }
}
