import OTAArchive
import OTAFirmware
import OTATestSupport
import OTAUpdate
import Testing

@Suite struct ZipArchiveTests {
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

    @Test(arguments: [ZipSample.plain, ZipSample.streamed])
    func whatPythonPacks(bytes: [UInt8]) throws {
        let archive = try ZipArchive(bytes)
        #expect(archive.entries.map(\.name) == ZipSample.names && archive.entries.map(\.size) == [560, 16])
        #expect(try archive.contents(of: #require(archive["manifest.json"])) == ZipSample.text)
        #expect(try archive.contents(of: #require(archive["app.bin"])) == Array(0..<16))
        #expect(archive["APP.BIN"] == nil)
    }

    @Test func aCommentIsPassedOver() throws {
        let commented = changed([(ZipSample.end + 20, 3)]) + Array("abc".utf8)
        #expect(try ZipArchive(commented).entries.count == 2)
        // One that is shorter or longer than it says, and one with an end record in it.
        #expect(refusal(commented + [0]) == .truncated)
        #expect(refusal(Array(commented.dropLast())) == .truncated)
        let end = Array(ZipSample.plain[ZipSample.end...])
        #expect(refusal(changed([(ZipSample.end + 20, UInt8(end.count))]) + end) == .malformed)
    }

    @Test func anEmptyArchive() throws {
        #expect(try ZipArchive([0x50, 0x4B, 5, 6] + [UInt8](repeating: 0, count: 18)).entries.isEmpty)
        #expect(refusal([]) == .truncated)
    }

    /// What two readers may see differently, and what is not read.
    @Test(
        arguments: [
            ("a disk number", [(ZipSample.end + 4, 1)], .unsupported),
            ("a count of its own", [(ZipSample.end + 8, 1)], .unsupported),
            ("an entry more", [(ZipSample.end + 8, 3), (ZipSample.end + 10, 3)], .truncated),
            ("an entry less", [(ZipSample.end + 8, 1), (ZipSample.end + 10, 1)], .malformed),
            ("many entries", [(ZipSample.end + 9, 2), (ZipSample.end + 11, 2)], .tooLarge),
            ("a directory elsewhere", [(ZipSample.end + 16, 0x73)], .malformed),
            ("a directory that is none", [(ZipSample.directory, 0)], .malformed),
            ("encryption", [(ZipSample.directory + 8, 1)], .unsupported),
            ("encryption below", [(6, 1)], .malformed),
            ("another method", [(ZipSample.directory + 10, 9)], .unsupported),
            ("another method below", [(8, 0)], .malformed),
            ("another checksum below", [(14, 0)], .malformed),
            ("another size below", [(22, 0)], .malformed),
            ("another name below", [(30, 0x4D)], .malformed),
            ("a name with a control character", [(ZipSample.directory + 46, 7)], .malformed),
            ("a stored entry with two sizes", [(ZipSample.directory + 59 + 24, 17)], .malformed),
            ("no header where it should be", [(0, 0)], .malformed),
            ("a header inside of another entry", [(ZipSample.directory + 59 + 42, 0)], .malformed),
            ("a header behind the directory", [(ZipSample.directory + 59 + 42, 0xC0)], .malformed),
            ("a size of 64 bits", (0..<4).map { (ZipSample.directory + 24 + $0, 0xFF) }, .unsupported),
            ("a wrong byte", [(100, 1)], .damaged),
            ("a wrong deflated byte", [(50, 1)], .damaged),
            ("a wrong checksum of a deflated entry", [(14, 0), (ZipSample.directory + 16, 0)], .damaged),
        ] as [(String, [(Int, UInt8)], ZipError.Code)])
    func hostile(what: String, changes: [(Int, UInt8)], code: ZipError.Code) {
        #expect(refusal(changed(changes)) == code, "\(what)")
    }

    /// Each entry announces what it likes: nothing is unpacked before the sum was looked at, and never more than that.
    @Test func aBombIsBounded() {
        let size = ZipSample.directory + 24
        let huge = changed([(size + 3, 0x10), (25, 0x10)])
        #expect(refusal(huge) == .tooLarge)
        for length: UInt8 in [0x2F, 0x31] {
            #expect(refusal(changed([(size, length), (22, length)])) == .damaged, "\(length)")
        }
    }

    @Test("a byte between the end of the deflated stream and the end of the entry is refused")
    func nothingFollowsTheStream() {
        var bytes = ZipSample.plain
        // Behind the first entry's 20 packed bytes; its size, the second entry and the directory move by one.
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

    /// Two entries that are one and the same stream, as in a bomb whose entries overlap.
    @Test func entriesDoNotOverlap() {
        var bytes = ZipSample.plain
        // The first entry's bytes, packed size and all, reach over the second's header.
        for base in [18, ZipSample.directory + 20] { bytes[base] = 0x30 }
        #expect(refusal(bytes) == .malformed)
    }

    @Test func aNameIsThereOnce() {
        var bytes = ZipSample.plain
        let name = Array("app.bin".utf8)
        // Both are of one name where the lengths are.
        for (lengthAt, nameAt) in [(26, 30), (ZipSample.directory + 28, ZipSample.directory + 46)] {
            bytes[lengthAt] = 7
            bytes[lengthAt + 2] = 6
            bytes.replaceSubrange(nameAt..<nameAt + 7, with: name)
        }
        #expect(refusal(bytes) == .malformed)
    }

    @Test(arguments: [ZipSample.plain, ZipSample.streamed])
    func everyTruncationIsRefused(bytes: [UInt8]) {
        for length in bytes.indices { #expect(refusal(Array(bytes.prefix(length))) != nil, "\(length) bytes") }
    }

    /// Nothing traps, and what is taken is what was packed.
    @Test func anyBytes() throws {
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
