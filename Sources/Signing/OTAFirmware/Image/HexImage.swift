/// An image from text in a `HexFormat`.
///
/// The image has all bytes from the lowest to the highest address. Gaps (addresses without data in the text) contain 0xFF, the value of
/// erased flash.
public struct HexImage: Sendable, Hashable {
    /// The default limit for the length of an image including its gaps, in bytes: 64 MiB.
    public static let maximumSpan = 64 << 20

    /// The maximum number of bytes in gaps, if the gaps are at least half of the image: 4 MiB. The text of an application has alignment gaps,
    /// and at most a gap to settings at the end of the microcontroller's flash. A larger gap usually separates different memories.
    public static let maximumGap = 4 << 20

    /// The address of the first byte.
    public let startAddress: UInt32
    public let bytes: [UInt8]
    /// A remark for the user if at least half of the image is in gaps; otherwise nil.
    public let gapNote: String?

    /// Parses hex text. The image including its gaps must not have more than `maximumSpan` bytes.
    public init(
        parsing text: [UInt8], as format: HexFormat = .intelHex, maximumSpan: Int = Self.maximumSpan
    ) throws(HexError) {
        self = try text.withUnsafeBufferPointer { (buffer) throws(HexError) -> HexImage in
            let text = UnsafeRawBufferPointer(buffer)
            return switch format {
            case .intelHex: try HexImage(IntelHexRecords(text), format, maximumSpan)
            case .sRecord: try HexImage(SRecords(text), format, maximumSpan)
            }
        }
    }

    /// Reads the records twice: first to find the address range of the image, then to store the bytes.
    private init(_ text: some HexRecords, _ format: HexFormat, _ maximumSpan: Int) throws(HexError) {
        let (extent, gap) = try Self.extent(of: text, format, maximumSpan)
        var image = [UInt8](repeating: 0xFF, count: extent.count)
        // One bit for each byte of the image. A bit is set after a record has provided the byte.
        var written = [UInt8](repeating: 0, count: (extent.count + 7) / 8)
        var records = text
        while let address = try records.next() {
            // The extent does not include the address of a record without data. If this address is below the extent, the next subtraction
            // would trap.
            if records.data.isEmpty { continue }
            var position = Int(address - extent.lowerBound)
            for byte in records.data {
                let bit: UInt8 = 1 << (position & 7)
                guard written[position >> 3] & bit == 0 else {
                    throw HexError(
                        .overlappingData, line: records.line,
                        "address \(addressText(extent.lowerBound + UInt64(position))) appears in two data records",
                        in: format)
                }
                written[position >> 3] |= bit
                image[position] = byte
                position += 1
            }
        }
        startAddress = UInt32(truncatingIfNeeded: extent.lowerBound)
        bytes = image
        gapNote = try 2 * gap >= extent.count ? HexRegions(text).note(gap: gap, of: extent.count) : nil
    }

    /// Returns the range from the lowest address of the data to the address after the last byte, and the number of bytes in gaps.
    private static func extent(
        of text: some HexRecords, _ format: HexFormat, _ maximumSpan: Int
    ) throws(HexError) -> (extent: Range<UInt64>, gap: Int) {
        var lowest = UInt64.max
        var end: UInt64 = 0
        var count = 0
        var records = text
        while let address = try records.next() {
            if records.data.isEmpty { continue }
            lowest = min(lowest, address)
            end = max(end, address + UInt64(records.data.count))
            count += records.data.count
            guard end - lowest <= maximumSpan else {
                throw try HexRegions(text).tooFarApart(line: records.line, format)
            }
        }
        guard lowest < end else { throw HexError(.noData, line: records.line, "there are no data bytes", in: format) }
        let extent = lowest..<end
        // Overlapping records, which are refused later, can have more bytes than the extent.
        let gap = max(0, extent.count - count)
        guard gap <= maximumGap || 2 * gap < extent.count else {
            throw try HexRegions(text).tooFarApart(line: records.line, format)
        }
        return (extent, gap)
    }
}

/// Formats an address as `0x` with at least eight hex digits.
private func addressText(_ address: UInt64) -> String {
    let digits = String(address, radix: 16)
    return "0x" + String(repeating: "0", count: max(0, 8 - digits.count)) + digits
}

/// The address ranges of the data in a hex text. Ranges with a gap of less than 4 KiB between them are one range.
///
/// The usual reason for a large gap is that the text contains fuses or settings in addition to the application. For example, an nRF52 has
/// settings in the UICR memory at 0x10001000.
private struct HexRegions {
    private static let smallGap: UInt64 = 4096

    private var regions: [Range<UInt64>] = []

    init(_ text: some HexRecords) throws(HexError) {
        var runs: [Range<UInt64>] = []
        var records = text
        while let address = try records.next() {
            let end = address + UInt64(records.data.count)
            if let last = runs.last, last.upperBound == address {
                runs[runs.count - 1] = last.lowerBound..<end
            } else if end > address {
                runs.append(address..<end)
            }
        }
        runs.sort { $0.lowerBound < $1.lowerBound }
        for run in runs {
            if let last = regions.last, run.lowerBound < last.upperBound + Self.smallGap {
                regions[regions.count - 1] = last.lowerBound..<max(last.upperBound, run.upperBound)
            } else {
                regions.append(run)
            }
        }
    }

    /// The maximum number of ranges in a message.
    private static let mostNamed = 4

    /// The first ranges as a text, such as `from 0x00001000 to 0x00002001 and from 0x10001014 to 0x10001018`.
    private var ranges: String {
        let named = regions.prefix(Self.mostNamed).map { range in
            "from \(addressText(range.lowerBound)) to \(addressText(range.upperBound))"
        }
        let more = regions.count - named.count
        return more > 0
            ? named.joined(separator: ", ") + " and in \(more) more range\(more > 1 ? "s" : "")"
            : named.dropLast().joined(separator: ", ") + (named.count > 1 ? " and " : "") + (named.last ?? "")
    }

    func note(gap: Int, of length: Int) -> String {
        "\(gap) of the \(length) bytes of the image are gaps, filled with 0xff: the text has data \(ranges)"
    }

    /// Returns an error that reports the ranges. Its hint is a command that extracts the longest range. If the data has no gap, the error
    /// only reports that the data is too long.
    func tooFarApart(line: Int, _ format: HexFormat) -> HexError {
        guard regions.count > 1, let kept = regions.max(by: { $0.count < $1.count }) else {
            return HexError(.spanTooLarge, line: line, "the data are longer than an image may be", in: format)
        }
        let crop = "\(addressText(kept.lowerBound)) \(addressText(kept.upperBound))"
        return HexError(
            .spanTooLarge, line: line, "the data \(ranges) are too far apart for one image", in: format,
            hint: "extract the application: srec_cat app.hex \(format.option) -crop \(crop) -o image.hex -intel")
    }
}
