import OTAArchive
import OTAFirmware
import OTATestSupport
import OTAUpdate
import Testing

@Suite("Zip archives") struct ZipArchiveTests {
    private func changed(_ changes: [(Int, UInt8)]) -> [UInt8] {
        var bytes = ZipSample.plain
        for (offset, value) in changes { bytes[offset] = value }
        return bytes
    }

    private func refusal(_ bytes: [UInt8]) -> ZipError.Code? {
        do throws(ZipError) {
            let archive = try ZipArchive(bytes)
            for entry in archive.entries { _ = try archive.contents(of: entry) }
            return nil
        } catch {
            return error.code
        }
    }

    @Test("an archive of Python's zipfile is read and unpacked", arguments: [ZipSample.plain, ZipSample.streamed])
    func whatPythonPacks(bytes: [UInt8]) throws {
        let archive = try ZipArchive(bytes)
        #expect(archive.entries.map(\.name) == ZipSample.names && archive.entries.map(\.size) == [560, 16])
        #expect(try archive.contents(of: #require(archive["manifest.json"])) == ZipSample.text)
        #expect(try archive.contents(of: #require(archive["app.bin"])) == Array(0..<16))
        #expect(archive["APP.BIN"] == nil)
    }

    /// Python's zipfile uses the last end record in a comment, also if the lengths of the two comments contradict each other.
    @Test("an archive with a comment after its end record is refused")
    func comments() {
        let commented = changed([(ZipSample.end + 20, 3)]) + Array("abc".utf8)
        #expect(refusal(commented) == .malformed)
        #expect(refusal(commented + [0]) == .malformed)
        #expect(refusal(Array(commented.dropLast())) == .malformed)
        #expect(refusal(Array(commented.dropLast(3))) == .truncated)
        let end = Array(ZipSample.plain[ZipSample.end...])
        #expect(refusal(changed([(ZipSample.end + 20, UInt8(end.count))]) + end) == .malformed)
    }

    @Test("an archive with a comment in its directory is refused")
    func directoryComment() {
        var bytes = changed([(ZipSample.directory + 59 + 32, 3), (ZipSample.end + 12, 0x73)])
        bytes.insert(contentsOf: Array("abc".utf8), at: ZipSample.end)
        #expect(refusal(bytes) == .malformed)
    }

    /// Inserts an extra field into the local header and the directory entry of `app.bin`.
    private func withExtra(_ extra: [UInt8]) -> [UInt8] {
        let count = UInt8(extra.count)
        var bytes = changed([
            (63 + 28, count), (ZipSample.directory + 59 + 30, count),
            (ZipSample.end + 12, 0x70 + count), (ZipSample.end + 16, 0x74 + count),
        ])
        bytes.insert(contentsOf: extra, at: ZipSample.end)
        bytes.insert(contentsOf: extra, at: 63 + 37)
        return bytes
    }

    @Test("an unknown extra field is accepted; one that changes the name or the sizes, and a malformed one, is refused")
    func extraFields() throws {
        let times: [UInt8] = [0x55, 0x54, 5, 0, 1, 0, 0, 0, 0]
        let archive = try ZipArchive(withExtra(times))
        #expect(try archive.contents(of: #require(archive["app.bin"])) == Array(0..<16))
        let path: [UInt8] = [0x75, 0x70, 6, 0, 1, 0, 0, 0, 0, 0x78]
        #expect(refusal(withExtra(path)) == .unsupported)
        #expect(refusal(withExtra(times + path)) == .unsupported)
        #expect(refusal(withExtra([1, 0, 8, 0, 16, 0, 0, 0, 0, 0, 0, 0])) == .unsupported)
        for malformed: [UInt8] in [[0], [0x55, 0x54, 1], [0x55, 0x54, 1, 0], [0x55, 0x54, 6, 0, 1, 0, 0, 0, 0]] {
            #expect(refusal(withExtra(malformed)) == .malformed, "\(malformed)")
        }
        // The field is only in the local header, which programs use that read the entries one after another.
        var local = changed([
            (63 + 28, UInt8(path.count)), (ZipSample.end + 16, 0x74 + UInt8(path.count)),
        ])
        local.insert(contentsOf: path, at: 63 + 37)
        #expect(refusal(local) == .unsupported)
    }

    /// Python's zipfile uses the directory of the 64-bit format if its locator is in front of the end record.
    @Test("a locator of the 64-bit format is refused, also in an extra field")
    func locator() {
        let locator: [UInt8] = [0x50, 0x4B, 6, 7] + [UInt8](repeating: 0, count: 16)
        #expect(refusal(withExtra([0x99, 0x99, 20, 0] + locator)) == .unsupported)
        #expect(refusal(withExtra([0x99, 0x99, 21, 0] + locator + [0])) == nil)
    }

    @Test("bytes before, between and after the entries are refused")
    func gaps() {
        for (place, first, second) in [(0, 1, 1), (63, 0, 1), (ZipSample.directory, 0, 0)] {
            var bytes = changed([
                (ZipSample.directory + 42, UInt8(first)), (ZipSample.directory + 59 + 42, UInt8(63 + second)),
                (ZipSample.end + 16, 0x75),
            ])
            bytes.insert(0, at: place)
            #expect(refusal(bytes) == .malformed, "\(place)")
        }
    }

    /// The first descriptor is at 63, after the packed bytes. Its signature takes 4 bytes.
    @Test("sizes after the packed bytes must be those of the directory; their signature is optional")
    func descriptors() throws {
        for offset in 63..<79 {
            var bytes = ZipSample.streamed
            bytes[offset] ^= 1
            #expect(refusal(bytes) == .malformed, "\(offset)")
        }
        // The directory is at 148 and the end record at 260.
        var plain = ZipSample.streamed
        plain[260 + 16] -= 4
        plain[148 + 59 + 42] -= 4
        plain.removeSubrange(63..<67)
        #expect(refusal(plain) == nil)
        // The header may have zeros or the values of the directory.
        for (value, expected) in [(0x6E, nil), (0x6F, .malformed)] as [(UInt8, ZipError.Code?)] {
            var bytes = ZipSample.streamed
            bytes.replaceSubrange(14..<18, with: [value, 0x48, 0x3C, 0xE2])
            #expect(refusal(bytes) == expected)
        }
    }

    @Test("a name that is not ASCII requires the flag for UTF-8, in both places")
    func namesInUTF8() throws {
        // In both headers, `app` becomes the two bytes of `é` and a `p`.
        let second = ZipSample.directory + 59
        let names: [(Int, UInt8)] = [(93, 0xC3), (94, 0xA9), (second + 46, 0xC3), (second + 47, 0xA9)]
        let flags: [(Int, UInt8)] = [(63 + 7, 8), (second + 9, 8)]
        #expect(refusal(changed(names)) == .malformed)
        #expect(refusal(changed(names + flags.prefix(1))) == .malformed)
        #expect(refusal(changed(names + flags.suffix(1))) == .malformed)
        let archive = try ZipArchive(changed(names + flags))
        #expect(archive["\u{E9}p.bin"] != nil && archive["e\u{301}p.bin"] == nil)
    }

    @Test("an archive without entries is accepted, and an empty file is refused")
    func anEmptyArchive() throws {
        #expect(try ZipArchive([0x50, 0x4B, 5, 6] + [UInt8](repeating: 0, count: 18)).entries.isEmpty)
        #expect(refusal([]) == .truncated)
    }

    /// "Local" means the header in front of an entry's bytes. The other values are in the directory or in the end record.
    @Test(
        "an archive with a contradiction or an unsupported feature is refused",
        arguments: [
            ("a disk number", [(ZipSample.end + 4, 1)], .unsupported),
            ("two counts of entries that differ", [(ZipSample.end + 8, 1)], .unsupported),
            ("a count that is too high", [(ZipSample.end + 8, 3), (ZipSample.end + 10, 3)], .truncated),
            ("a count that is too low", [(ZipSample.end + 8, 1), (ZipSample.end + 10, 1)], .malformed),
            ("many entries", [(ZipSample.end + 9, 2), (ZipSample.end + 11, 2)], .tooLarge),
            ("a directory at another position", [(ZipSample.end + 16, 0x73)], .malformed),
            ("a directory without the signature of an entry", [(ZipSample.directory, 0)], .malformed),
            ("encryption", [(ZipSample.directory + 8, 1)], .unsupported),
            ("local encryption", [(6, 1)], .malformed),
            ("another method", [(ZipSample.directory + 10, 9)], .unsupported),
            ("another local method", [(8, 0)], .malformed),
            ("another local checksum", [(14, 0)], .malformed),
            ("another local size", [(22, 0)], .malformed),
            ("another local name", [(30, 0x4D)], .malformed),
            ("a name with a control character", [(ZipSample.directory + 46, 7)], .malformed),
            ("a stored entry with two sizes", [(ZipSample.directory + 59 + 24, 17)], .malformed),
            (
                "a stored entry with two sizes in both places", [(63 + 22, 17), (ZipSample.directory + 59 + 24, 17)],
                .malformed
            ),
            ("another checksum in both places", [(14, 0), (ZipSample.directory + 16, 0)], .damaged),
            ("a longer directory", [(ZipSample.end + 12, 0x71)], .malformed),
            ("no local header at the position in the directory", [(0, 0)], .malformed),
            ("two entries with the same local header", [(ZipSample.directory + 59 + 42, 0)], .malformed),
            ("a local header after the start of the directory", [(ZipSample.directory + 59 + 42, 0xC0)], .malformed),
            ("a size of 64 bits", (0..<4).map { (ZipSample.directory + 24 + $0, 0xFF) }, .unsupported),
            ("a wrong byte", [(100, 1)], .damaged),
            ("a wrong deflated byte", [(50, 1)], .damaged),
            ("a wrong checksum of a deflated entry", [(14, 0), (ZipSample.directory + 16, 0)], .damaged),
        ] as [(String, [(Int, UInt8)], ZipError.Code)])
    func hostile(what: String, changes: [(Int, UInt8)], code: ZipError.Code) {
        #expect(refusal(changed(changes)) == code, "\(what)")
    }

    /// The sum of the sizes is checked before an entry is unpacked.
    @Test("an entry with a wrong size is refused, and never unpacked past its size")
    func aBombIsBounded() {
        let size = ZipSample.directory + 24
        let huge = changed([(size + 3, 0x10), (25, 0x10)])
        #expect(refusal(huge) == .tooLarge)
        for length: UInt8 in [0x2F, 0x31] {
            #expect(refusal(changed([(size, length), (22, length)])) == .damaged, "\(length)")
        }
    }

    @Test("an archive is refused if the sum of its sizes is too large, and each size alone is not")
    func theSumIsBounded() {
        var changes: [(Int, UInt8)] = [(63 + 8, 8), (ZipSample.directory + 59 + 10, 8)]
        for size in [22, ZipSample.directory + 24, 63 + 22, ZipSample.directory + 59 + 24] {
            changes.append((size + 3, 0x0F))
        }
        #expect(refusal(changed(changes)) == .tooLarge)
    }

    @Test("an archive without entries, but with other bytes, is refused")
    func onlyOtherBytes() {
        let empty: [UInt8] = [0x50, 0x4B, 5, 6] + [UInt8](repeating: 0, count: 12) + [250, 0, 0, 0, 0, 0]
        #expect(refusal([UInt8](repeating: 0, count: 250) + empty) == .malformed)
    }

    @Test("a byte between the end of the deflated stream and the end of the entry is refused")
    func nothingFollowsTheStream() {
        var bytes = ZipSample.plain
        // The byte comes after the first entry's 20 packed bytes. The packed size and the positions after it grow by one.
        bytes.insert(0, at: 63)
        for (offset, value) in [
            (18, 21), (ZipSample.directory + 1 + 20, 21), (ZipSample.directory + 1 + 59 + 42, 64),
            (ZipSample.end + 1 + 16, UInt8(ZipSample.directory + 1)),
        ] as [(Int, UInt8)] {
            #expect(bytes[offset] == value - 1)
            bytes[offset] = value
        }
        #expect(refusal(bytes) == .damaged)
    }

    /// A zip bomb can use the same stream for many entries.
    @Test("entries that overlap are refused")
    func entriesDoNotOverlap() {
        var bytes = ZipSample.plain
        // The first entry's packed size includes the second entry's header.
        for base in [18, ZipSample.directory + 20] { bytes[base] = 0x30 }
        #expect(refusal(bytes) == .malformed)
    }

    @Test("two entries with the same name are refused")
    func aNameIsThereOnce() {
        var bytes = ZipSample.plain
        let name = Array("app.bin".utf8)
        // In both headers of the first entry, the name becomes that of the second entry. The extra field takes the other bytes.
        for (lengthAt, nameAt) in [(26, 30), (ZipSample.directory + 28, ZipSample.directory + 46)] {
            bytes[lengthAt] = 7
            bytes[lengthAt + 2] = 6
            bytes.replaceSubrange(nameAt..<nameAt + 13, with: name + [0x99, 0x99, 2, 0, 0, 0])
        }
        #expect(refusal(bytes) == .malformed)
    }

    @Test("each truncated archive is refused", arguments: [ZipSample.plain, ZipSample.streamed])
    func everyTruncationIsRefused(bytes: [UInt8]) {
        for length in bytes.indices { #expect(refusal(Array(bytes.prefix(length))) != nil, "\(length) bytes") }
    }

    @Test("a mutated archive is refused, or its entries have their declared sizes")
    func anyBytes() throws {
        var random = SplitMix64(seed: 4)
        var taken = 0
        for _ in 0..<4000 {
            var bytes = ZipSample.plain
            for _ in 0...Int(random.next() % 3) {
                bytes[Int(random.next() % UInt64(bytes.count))] = UInt8(truncatingIfNeeded: random.next())
            }
            guard let archive = try? ZipArchive(bytes) else { continue }
            for entry in archive.entries {
                guard let contents = try? archive.contents(of: entry) else { continue }
                taken += 1
                #expect(contents.count == entry.size)
            }
        }
        #expect(taken > 200)
    }
}
