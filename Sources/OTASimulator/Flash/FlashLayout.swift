/// The layout of a virtual flash: two pages of boot records, two pages of the device core's records, two slots.
public struct FlashLayout: Sendable, Equatable {
    /// The size of a page in bytes. One operation erases a page.
    public let pageSize: Int
    /// The size of each of the two slots in bytes, a multiple of the page size.
    public let slotSize: Int
    /// The size of the smallest write in bytes. Offset and length of each program are multiples of it.
    public let writeUnit: Int

    public init(pageSize: Int = 4096, slotSize: Int = 2 << 20, writeUnit: Int = 4) {
        self.pageSize = pageSize
        self.slotSize = slotSize
        self.writeUnit = writeUnit
    }

    public var size: Int { 4 * pageSize + 2 * slotSize }

    /// The offset of the boot records, in bytes. They fill two pages.
    var bootRecords: Int { 0 }
    /// The offset of the device core's records, in bytes. They fill two pages.
    var coreRecords: Int { 2 * pageSize }
    /// Returns the offset of slot 0 or 1, in bytes.
    func slot(_ index: Int) -> Int { 4 * pageSize + index * slotSize }
}

extension FlashLayout {
    /// Checks the sizes.
    ///
    /// - Throws: `badConfiguration` for the first value that is out of range.
    func validate() throws(VirtualDeviceError) {
        guard 512...65536 ~= pageSize && pageSize.isMultiple(of: 512) else {
            throw VirtualDeviceError(
                .badConfiguration, "a flash page has 512 to 65536 bytes, a multiple of 512")
        }
        guard [1, 2, 4, 8, 16, 32, 64].contains(writeUnit) else {
            throw VirtualDeviceError(.badConfiguration, "a write unit is 1, 2, 4 … 64 bytes")
        }
        guard pageSize...(64 << 20) ~= slotSize && slotSize.isMultiple(of: pageSize) else {
            throw VirtualDeviceError(.badConfiguration, "a slot is whole pages, 64 MiB at most")
        }
    }
}
