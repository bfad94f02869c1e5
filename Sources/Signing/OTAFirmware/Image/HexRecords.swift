/// An iterator over the data records of a hex text. The iterator also checks the records of other types, but does not return them.
protocol HexRecords {
    init(_ text: UnsafeRawBufferPointer)

    /// The number of the line that was read last. The first line has the number 1.
    var line: Int { get }

    /// The data of the current record.
    var data: ArraySlice<UInt8> { get }

    /// Reads the next data record, and returns the address of its first byte. Returns nil after the end of the text.
    mutating func next() throws(HexError) -> UInt64?
}
