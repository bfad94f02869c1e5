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

    @Test("an error about a device's buffers has only their size and count")
    func namesTheBuffers() {
        let fields: [String: CBORValue] = ["buf_size": CBORValue(0), "x": .text(String(repeating: "y", count: 60_000))]
        let error = #expect(throws: SMPFrameError.self) { try SMPParameters(fields) }
        #expect(error?.context == "the device reports impossible buffers: size 0, count not an integer")
    }

    @Test("a missing flag of an image is false")
    func missingFlags() throws {
        let image: CBORValue = .map(["slot": CBORValue(0), "version": .text("1.0.0")])
        let list = try SMPImageList(["images": .array([image])])
        let entry = try #require(list.entries.first)
        #expect(!entry.active && !entry.confirmed && !entry.pending && !entry.bootable && !entry.permanent)
        #expect(entry.digest == nil && entry.image == 0)
    }
}
