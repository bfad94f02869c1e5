import FoundationEssentials
import OTAClient
import OTAFirmware
import OTASigning
import SystemPackage
import Testing

@Suite("Bases") struct BaseImagesTests {
    /// A folder with bundles of two releases, an image, and files that are no bases.
    private final class Fixture {
        let folder: FilePath
        private(set) var notes: [String] = []

        init() throws {
            folder = FilePath("/tmp/otaflash-bases-\(UUID().uuidString)")
            let bundles = folder.appending("bundles")
            for path in [folder, bundles, bundles.appending("older.otaf")] {
                try FileManager.default.createDirectory(atPath: path.string, withIntermediateDirectories: false)
            }
            try write("image.bin", [1, 2, 3])
            try write("bundles/README.txt", Array("Releases".utf8))
            try write("bundles/image.bin", [4, 5, 6])
            let key = try PrivateKey.generate()
            for version in ["1.0.0", "1.1.0"] {
                let image = folder.appending("\(version).bin")
                try write("\(version).bin", Array(version.utf8))
                _ = try BundleSigner(keys: [key]).sign(
                    image, as: Release(product: ProductName("lamp"), version: SemanticVersion(version)), created: 1,
                    to: bundles.appending("lamp-\(version).otaf"), replace: false)
            }
        }

        deinit { try? FileManager.default.removeItem(atPath: folder.string) }

        func write(_ name: String, _ bytes: [UInt8]) throws {
            try Data(bytes).write(to: URL(filePath: folder.appending(name).string))
        }

        func find(_ names: String...) -> [BaseImage] {
            BaseImages(in: names.map { folder.appending($0) }) { notes.append($0) }.images
        }
    }

    @Test("the bundles of a folder are found in the order of their names, and other files are skipped without a note")
    func folder() throws {
        let fixture = try Fixture()
        let bases = fixture.find("bundles")
        #expect(bases.map(\.version?.text) == ["1.0.0", "1.1.0"] && bases.map(\.id) == [0, 1])
        #expect(bases.allSatisfy { $0.product?.text == "lamp" && $0.size == 5 })
        #expect(bases.map(\.digest) == ["1.0.0", "1.1.0"].map { SHA256.digest(of: Array($0.utf8)) })
        #expect(Set(bases.map(\.manifestDigest)).count == 2 && !bases.map(\.manifestDigest).contains(nil))
        #expect(fixture.notes.isEmpty)
    }

    @Test("named files are found in the given order; an image has no version and no product")
    func files() throws {
        let fixture = try Fixture()
        let bases = fixture.find("image.bin", "bundles/lamp-1.1.0.otaf", "bundles")
        #expect(bases.map(\.version?.text) == [nil, "1.1.0", "1.0.0", "1.1.0"])
        let image = try #require(bases.first)
        #expect(image.size == 3 && image.digest == SHA256.digest(of: [1, 2, 3]))
        #expect(image.manifestDigest == nil && image.product == nil && image.name.hasSuffix("/image.bin"))
    }

    @Test("an Intel HEX file is a base with the bytes of its image")
    func hex() throws {
        let fixture = try Fixture()
        try fixture.write("image.hex", Array(":03000000010203F7\n:00000001FF\n".utf8))
        #expect(fixture.find("image.hex").map(\.digest) == [SHA256.digest(of: [1, 2, 3])])
    }

    @Test(
        "a file that cannot be a base is reported in a note, and the other files are found",
        arguments: [
            ("missing.bin", nil), ("empty.bin", []), ("key.pem", Array("-----BEGIN PRIVATE KEY-----".utf8)),
            ("cut.otaf", Array("OTAF".utf8)), ("app.zip", [0x50, 0x4B, 3, 4]),
        ] as [(String, [UInt8]?)])
    func unusable(name: String, bytes: [UInt8]?) throws {
        let fixture = try Fixture()
        if let bytes { try fixture.write(name, bytes) }
        #expect(fixture.find(name, "image.bin").count == 1)
        #expect(fixture.notes.count == 1 && fixture.notes.allSatisfy { $0.contains(name) })
    }
}
