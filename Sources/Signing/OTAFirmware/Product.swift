/// The name of a product. A device accepts a bundle only if the product name in the bundle is equal to the device's own product name, byte
/// for byte.
public struct ProductName: Sendable, Hashable, CustomStringConvertible {
    /// A description of the text format, for messages to the user.
    public static let rule = "1 to 63 characters of A-Z a-z 0-9 . _ -, such as acme-thermostat"

    public let text: String

    /// Returns nil if `text` does not follow the `rule`.
    public init?(_ text: some StringProtocol) {
        guard (1...63).contains(text.utf8.count),
            text.utf8.allSatisfy({ $0.isASCIILetterOrDigit || ".-_".utf8.contains($0) })
        else { return nil }
        self.text = String(text)
    }

    public var description: String { text }
}

/// The hardware revisions that a bundle supports.
///
/// The value consists of 1 to 16 ranges in ascending order. A range includes both of its bounds. The ranges do not overlap and are not
/// adjacent. Therefore each set of revisions has exactly one encoding.
public struct HardwareRevisions: Sendable, Hashable, CustomStringConvertible {
    /// A description of the text format, for messages to the user.
    public static let rule = "1 to 16 revisions or ranges of revisions, 0 to 65535, such as 2 or 1..3,7"
    static let encodingRule =
        "1 to 16 pairs of u16, lowest and highest revision, ascending, neither overlapping nor adjacent"

    public let ranges: [ClosedRange<UInt16>]

    /// Returns nil if the number of ranges is not 1 to 16, if two ranges overlap or are adjacent, or if the order is not ascending.
    public init?(ranges: [ClosedRange<UInt16>]) {
        guard (1...16).contains(ranges.count),
            zip(ranges, ranges.dropFirst()).allSatisfy({ Self.leavesGap($0, $1) })
        else { return nil }
        self.ranges = ranges
    }

    /// Parses text such as `2` or `1..3,7`. Returns nil if `text` does not follow the `rule`.
    ///
    /// The ranges may be in any order. The initializer joins ranges that overlap or are adjacent.
    public init?(_ text: some StringProtocol) {
        var joined: [ClosedRange<UInt16>] = []
        let parsed = text.split(separator: ",", omittingEmptySubsequences: false).map { Self.range(String($0)) }
        for range in parsed.sorted(by: { ($0?.lowerBound ?? 0) < ($1?.lowerBound ?? 0) }) {
            guard let range else { return nil }
            if let last = joined.last, !Self.leavesGap(last, range) {
                joined[joined.count - 1] = last.lowerBound...max(last.upperBound, range.upperBound)
            } else {
                joined.append(range)
            }
        }
        self.init(ranges: joined)
    }

    /// Parses the ranges, each as two little-endian u16: the lowest and the highest revision. Returns nil if the bytes do not follow the
    /// `encodingRule`.
    init?(encoded bytes: ArraySlice<UInt8>) {
        var reader = ByteReader(bytes)
        var ranges: [ClosedRange<UInt16>] = []
        while reader.remaining > 0 {
            guard let lowest = try? reader.read(UInt16.self), let highest = try? reader.read(UInt16.self),
                lowest <= highest
            else { return nil }
            ranges.append(lowest...highest)
        }
        self.init(ranges: ranges)
    }

    var encoded: [UInt8] {
        var writer = ByteWriter()
        for range in ranges {
            writer.write(range.lowerBound)
            writer.write(range.upperBound)
        }
        return writer.bytes
    }

    public func contains(_ revision: UInt16) -> Bool {
        ranges.contains { $0.contains(revision) }
    }

    public func contains(_ revisions: ClosedRange<UInt16>) -> Bool {
        ranges.contains { $0.lowerBound <= revisions.lowerBound && revisions.upperBound <= $0.upperBound }
    }

    /// Returns whether all revisions of `others` are among these revisions.
    public func contains(_ others: HardwareRevisions) -> Bool { others.ranges.allSatisfy(contains) }

    public var description: String {
        ranges.map { $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)..\($0.upperBound)" }
            .joined(separator: ",")
    }

    /// Returns whether `second` is above `first` and at least one revision is between the two ranges.
    static func leavesGap(_ first: ClosedRange<UInt16>, _ second: ClosedRange<UInt16>) -> Bool {
        Int(second.lowerBound) > Int(first.upperBound) + 1
    }

    private static func range(_ text: String) -> ClosedRange<UInt16>? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        if parts.count == 1 { return number(parts[0]).map { $0...$0 } }
        guard parts.count == 3, parts[1].isEmpty, let lowest = number(parts[0]), let highest = number(parts[2]),
            lowest <= highest
        else { return nil }
        return lowest...highest
    }

    // `UInt16(_:)` also accepts a plus or minus sign. Therefore this function checks that the text contains only digits.
    private static func number(_ text: Substring) -> UInt16? {
        text.utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains) ? UInt16(text) : nil
    }
}
