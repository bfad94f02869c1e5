import OTAFirmware
import Testing

@Suite("Hardware revisions") struct HardwareRevisionsTests {
    @Test(
        "text with revisions is parsed to sorted and joined ranges",
        arguments: [
            ("2", [2...2]), ("1..3", [1...3]), ("1..3,7", [1...3, 7...7]), ("0..65535", [0...65535]),
            ("7,1..3", [1...3, 7...7]), ("1..3,2..5", [1...5]), ("1,2,3", [1...3]), ("1..9,2", [1...9]),
            ("65535,0", [0...0, 65535...65535]), ("65534,65535", [65534...65535]), ("3,3", [3...3]),
        ] as [(String, [ClosedRange<UInt16>])])
    func typedText(text: String, ranges: [ClosedRange<UInt16>]) throws {
        let revisions = try #require(HardwareRevisions(text))
        #expect(revisions.ranges == ranges)
        #expect(HardwareRevisions(revisions.description) == revisions)
    }

    @Test(
        "invalid text with revisions is refused",
        arguments: [
            "", ",", "1,", "3..1", "1...3", "1..", "..3", "1.3", "-1", "+1", "65536", "1 ..3", "1..2..3", "x", "0x1",
            "١",
        ])
    func wrongTextIsRefused(text: String) {
        #expect(HardwareRevisions(text) == nil)
    }

    @Test("more than 16 ranges of revisions are refused")
    func sixteenRangesAtMost() {
        let numbers = (0..<17).map { "\($0 * 2)" }
        #expect(HardwareRevisions(numbers.prefix(16).joined(separator: ","))?.ranges.count == 16)
        #expect(HardwareRevisions(numbers.joined(separator: ",")) == nil)
    }

    @Test("ranges that are empty, unsorted, adjacent or overlapping are refused")
    func rangesThatMeetAreNotOnes() {
        #expect(HardwareRevisions(ranges: []) == nil)
        #expect(HardwareRevisions(ranges: [1...2, 3...4]) == nil)
        #expect(HardwareRevisions(ranges: [1...2, 2...4]) == nil)
        #expect(HardwareRevisions(ranges: [4...5, 1...2]) == nil)
        #expect(HardwareRevisions(ranges: [0...65535, 65535...65535]) == nil)
        #expect(HardwareRevisions(ranges: [1...2, 4...4]) != nil)
    }

    @Test("a revision is supported if one of the ranges contains it")
    func contains() throws {
        let revisions = try #require(HardwareRevisions("1..3,7"))
        #expect((0...9).filter { revisions.contains(UInt16($0)) } == [1, 2, 3, 7])
        #expect(!revisions.contains(.max))
    }
}
