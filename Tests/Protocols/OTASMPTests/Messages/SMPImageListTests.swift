import OTASMP
import Testing

@Suite("SMP image list and parameters") struct SMPImageListTests {
    @Test(
        "a version of 60,000 characters is cut to 200, and combining marks count as characters",
        arguments: ["1", "\u{301}"])
    func cutsALongVersion(scalar: String) throws {
        let long = "1" + String(repeating: scalar, count: 59_999)
        let image: CBORValue = .map(["slot": CBORValue(0), "version": .text(long)])
        let version = try #require(SMPImageList(["images": .array([image])]).entries.first?.version)
        #expect(version.unicodeScalars.count == 201 && version.hasSuffix("…"))
    }

    @Test("a value of the buffers that cannot be true counts as not reported, and the other value is used")
    func usableBuffers() {
        func parameters(_ size: CBORValue?, _ count: CBORValue?) -> SMPParameters {
            SMPParameters(["buf_size": size, "buf_count": count].compactMapValues { $0 })
        }
        for size in [nil, .text("2048"), .unsigned(.max)] + [0, -1, 97, 65544].map({ CBORValue($0) }) as [CBORValue?] {
            #expect(parameters(size, CBORValue(4)) == SMPParameters(bufferCount: 4), "\(String(describing: size))")
        }
        for count in [nil, .null] + [0, -1, 1025].map({ CBORValue($0) }) as [CBORValue?] {
            #expect(
                parameters(CBORValue(2048), count) == SMPParameters(bufferSize: 2048), "\(String(describing: count))")
        }
        for size in [98, 65543] { #expect(parameters(CBORValue(size), CBORValue(4)).bufferSize == size) }
        for count in [1, 1024] { #expect(parameters(CBORValue(2048), CBORValue(count)).bufferCount == count) }
    }

    @Test("the description of unusable buffers has only their size and number")
    func namesTheBuffers() {
        let fields: [String: CBORValue] = [
            "buf_size": CBORValue(0), "buf_count": .null, "x": .text(String(repeating: "y", count: 60_000)),
        ]
        #expect(SMPParameters(fields).unusableValues(in: fields) == "size (0) and number (not an integer)")
        #expect(SMPParameters([:]).unusableValues(in: [:]) == "size (missing) and number (missing)")
        let one: [String: CBORValue] = ["buf_size": CBORValue(2048), "buf_count": CBORValue(0)]
        #expect(SMPParameters(one).unusableValues(in: one) == "number (0)")
        let both: [String: CBORValue] = ["buf_size": CBORValue(2048), "buf_count": CBORValue(4)]
        #expect(SMPParameters(both).unusableValues(in: both) == nil)
    }

    @Test("a slot or an image size of 0 in the slot list counts as not reported")
    func slotsOfNoSize() throws {
        func list(_ largest: Int, _ size: Int) throws -> SMPSlotList {
            let slot: CBORValue = .map(["slot": CBORValue(1), "size": CBORValue(size)])
            return try SMPSlotList([
                "images": .array([.map(["slots": .array([slot]), "max_image_size": CBORValue(largest)])])
            ])
        }
        #expect(try list(0, 0).largestImage(0, running: 0) == nil)
        #expect(try list(-1, -1).largestImage(0, running: 0) == nil)
        #expect(try list(0, 1).largestImage(0, running: 0) == 1)
        #expect(try list(1, 0).largestImage(0, running: 0) == 1)
    }

    /// Returns a list of two images. The first image has these flags, and the second image has none.
    private func list(_ flags: [String: Bool]) throws -> SMPImageList {
        let image: [String: CBORValue] = ["slot": CBORValue(0), "version": .text("1.0.0")]
        let second: [String: CBORValue] = ["slot": CBORValue(1), "version": .text("1.0.0")]
        let first = image.merging(flags.mapValues { .bool($0) }) { $1 }
        return try SMPImageList(["images": .array([.map(first), .map(second)])])
    }

    @Test("in a list without flags, no flag and no digest is reported")
    func noFlags() throws {
        let entry = try #require(list([:]).entries.first)
        #expect(
            [entry.active, entry.confirmed, entry.pending, entry.bootable, entry.permanent].allSatisfy { $0 == nil })
        #expect(entry.digest == nil && entry.image == 0)
    }

    @Test("in a list with only true flags, an absent flag is false")
    func onlyTrueFlags() throws {
        let entries = try list(["active": true, "confirmed": true]).entries
        #expect(entries[0].active == true && entries[0].confirmed == true && entries[0].pending == false)
        #expect(entries[1].active == false && entries[1].bootable == false)
    }

    @Test("in a list with a false flag, an absent flag is not reported")
    func aFalseFlag() throws {
        let entries = try list(["active": true, "pending": false]).entries
        #expect(entries[0].pending == false && entries[0].confirmed == nil && entries[1].active == nil)
    }
}
