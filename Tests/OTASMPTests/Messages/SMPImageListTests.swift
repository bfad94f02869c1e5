import OTASMP
import Testing

@Suite struct SMPImageListTests {
    @Test("a flag that is missing from an image is false")
    func missingFlags() throws {
        let image: CBORValue = .map(["slot": CBORValue(0), "version": .text("1.0.0")])
        let list = try SMPImageList(["images": .array([image])])
        let entry = try #require(list.entries.first)
        #expect(!entry.active && !entry.confirmed && !entry.pending && !entry.bootable && !entry.permanent)
        #expect(entry.digest == nil && entry.image == 0)
    }
}
