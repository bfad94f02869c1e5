import FoundationEssentials
import Glibc
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
                try write("\(version).bin", Self.bytes(of: version))
                _ = try BundleSigner(keys: [key]).sign(
                    image, as: Release(product: ProductName("lamp"), version: SemanticVersion(version)), created: 1,
                    to: bundles.appending("lamp-\(version).otaf"), replace: false)
            }
        }

        /// Returns the image of a release. It begins with 0x80, because text is not firmware.
        static func bytes(of version: String) -> [UInt8] { [0x80, 0] + Array(version.utf8) }

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
        #expect(bases.allSatisfy { $0.product?.text == "lamp" && $0.size == 7 })
        #expect(bases.map(\.digest) == ["1.0.0", "1.1.0"].map { SHA256.digest(of: Fixture.bytes(of: $0)) })
        #expect(Set(bases.map(\.manifestDigest)).count == 2 && !bases.map(\.manifestDigest).contains(nil))
        #expect(fixture.notes.isEmpty)
    }

    @Test("named files are found in the given order; an image has no version and no product")
    func files() throws {
        let fixture = try Fixture()
        let bases = fixture.find("image.bin", "bundles/lamp-1.1.0.otaf", "bundles")
        #expect(bases.map(\.version?.text) == [nil, "1.1.0", "1.0.0"])
        let image = try #require(bases.first)
        #expect(image.size == 3 && image.digest == SHA256.digest(of: [1, 2, 3]))
        #expect(image.manifestDigest == nil && image.product == nil && image.name.hasSuffix("/image.bin"))
    }

    @Test("a path that is given twice is one base, or causes one note")
    func repeated() throws {
        let fixture = try Fixture()
        #expect(fixture.find("image.bin", "image.bin", "bundles", "bundles/").count == 3)
        #expect(fixture.notes.isEmpty, "\(fixture.notes)")
        #expect(fixture.find("missing.bin", "missing.bin", "bundles/older.otaf", "bundles/older.otaf").isEmpty)
        #expect(fixture.notes.count == 2, "\(fixture.notes)")
        let paths = ["bundles", "bundles/lamp-1.0.0.otaf"].map { fixture.folder.appending($0) }
        let bases = BaseImages(in: paths)
        #expect(bases.images.map(\.isNamed) == [true, false], "a file of a folder that is also named is a named base")
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
        #expect(fixture.notes.count == 1)
        // The note names the file once.
        #expect(
            fixture.notes[0].split(separator: name, omittingEmptySubsequences: false).count == 2, "\(fixture.notes)")
    }

    @Test("a folder without bundles is reported in a note")
    func emptyFolder() throws {
        let fixture = try Fixture()
        #expect(fixture.find("bundles/older.otaf").isEmpty)
        #expect(fixture.notes == ["no base from \(fixture.folder)/bundles/older.otaf: the folder contains no bundle"])
    }

    @Test("a bundle that cannot be used does not hide the other bundles of its folder")
    func damagedBundles() throws {
        let fixture = try Fixture()
        let whole = try [UInt8](Data(contentsOf: URL(filePath: "\(fixture.folder)/bundles/lamp-1.0.0.otaf")))
        try fixture.write("bundles/a-malformed.otaf", Array("OTAF".utf8))
        try fixture.write("bundles/b-truncated.otaf", whole.dropLast())
        try fixture.write("bundles/c-longer.otaf", whole + [0])
        #expect(mkfifo("\(fixture.folder)/bundles/d-fifo.otaf", 0o600) == 0)
        #expect(symlink("loop", "\(fixture.folder)/bundles/loop") == 0)
        #expect(fixture.find("bundles").map(\.version?.text) == ["1.0.0", "1.1.0"])
        #expect(fixture.notes.count == 4, "\(fixture.notes)")
        for (note, name) in zip(fixture.notes, ["a-malformed", "b-truncated", "c-longer", "1 more files"]) {
            #expect(note.contains(name))
        }
    }

    @Test("a search that is stopped keeps the images that it has found, and does not read the next file")
    func stopped() throws {
        let fixture = try Fixture()
        var files = 0
        let paths = ["bundles", "image.bin"].map { fixture.folder.appending($0) }
        let bases = BaseImages(
            in: paths,
            isStopped: {
                files += 1
                return files > 4
            })
        // The path, README.txt, image.bin and the first bundle.
        #expect(bases.images.map(\.version?.text) == ["1.0.0"])
    }

    @Test("a named pipe, a device and a folder that cannot be read are reported at once")
    func noFiles() throws {
        let fixture = try Fixture()
        #expect(mkfifo("\(fixture.folder)/fifo", 0o600) == 0)
        #expect(fixture.find("fifo").isEmpty && BaseImages(in: ["/dev/zero"]).images.isEmpty)
        #expect(fixture.notes == ["no base from \(fixture.folder)/fifo: not a regular file"])
    }

    @Test("a sparse file of 4 GiB is refused by its size")
    func sparse() throws {
        let fixture = try Fixture()
        try fixture.write("sparse.bin", [1])
        #expect(truncate("\(fixture.folder)/sparse.bin", 4 << 30) == 0)
        #expect(fixture.find("sparse.bin").isEmpty)
        #expect(fixture.notes.count == 1 && fixture.notes[0].contains("it has 4294967296 bytes"))
    }

    @Test("a folder with 5000 files is searched within seconds, and its unusable bundles cause four notes")
    func manyFiles() throws {
        let fixture = try Fixture()
        let bundle = URL(filePath: "\(fixture.folder)/bundles/lamp-1.0.0.otaf")
        for number in 0..<2500 {
            try FileManager.default.linkItem(
                at: bundle, to: URL(filePath: "\(fixture.folder)/bundles/copy-\(number).otaf"))
            try fixture.write("bundles/bad-\(number).otaf", Array("OTAF".utf8))
        }
        // The processor time of this thread does not depend on the other work of the machine.
        let begun = processorTime()
        let bases = fixture.find("bundles")
        #expect(processorTime() - begun < .seconds(10))
        #expect(bases.count == 2502 && Set(bases.map(\.digest)).count == 2)
        #expect(fixture.notes.count == 4 && fixture.notes.last?.contains("2497 more files") == true)
    }

    private func processorTime() -> Duration {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }
}
