import Glibc
import OTASigning
import OTATestSupport
import OTAUpdate
import SystemPackage
import Testing

@Suite("Reading the file to sign") struct InputFileTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    @Test("a range of the file is read completely and in order")
    func readsTheBytesOfARangeInOrder() throws {
        var random = SplitMix64(seed: 3)
        let bytes = random.bytes(3 * InputFile.pieceLength / 2)
        let file = try InputFile(folder.write("image", bytes))
        #expect(file.size == UInt64(bytes.count))
        #expect(try file.prefix(20) == Array(bytes.prefix(20)))
        #expect(try file.prefix(bytes.count + 1) == bytes)
        for range in [0..<bytes.count, 7..<bytes.count, 300_000..<300_001, 5..<5] {
            var read: [UInt8] = []
            try file.forEachPiece(in: UInt64(range.lowerBound)..<UInt64(range.upperBound)) { read += $0 }
            #expect(read == Array(bytes[range]))
        }
    }

    @Test("a file that changes during the read is refused", arguments: ["cut", "grown", "overwritten"])
    func changed(_ change: String) throws {
        let bytes = [UInt8](repeating: 1, count: 2 * InputFile.pieceLength)
        let path = try folder.write("image", bytes)
        let file = try InputFile(path)
        let error = #expect(throws: SigningError.self) {
            try file.forEachPiece(in: 0..<file.size) { _ in
                switch change {
                case "cut": truncate(path.string, 1000)
                case "grown": truncate(path.string, 1_000_000)
                default:
                    // A time in the past differs even if the file system's clock has a coarse resolution.
                    var times = [timespec(tv_sec: 1, tv_nsec: 0), timespec(tv_sec: 1, tv_nsec: 0)]
                    utimensat(AT_FDCWD, path.string, &times, 0)
                }
            }
        }
        #expect(error?.code == "image-changed")
    }

    @Test("a missing file, a folder, a device and a pipe are refused")
    func whatIsNoFileIsRefused() throws {
        func code(_ path: FilePath) -> String? { #expect(throws: SigningError.self) { try InputFile(path) }?.code }
        #expect(code(folder / "missing") == "no-such-file")
        #expect(code(folder.path) == "not-a-file")
        #expect(code("/dev/zero") == "not-a-file")
        #expect(mkfifo((folder / "pipe").string, 0o600) == 0)
        #expect(code(folder / "pipe") == "not-a-file")
    }

    @Test("a file of 4 GiB is refused without reading it")
    func moreThanAnImageCanHaveIsRefusedUnread() throws {
        let path = try folder.write("image", [])
        #expect(truncate(path.string, 1 << 32) == 0)
        let error = #expect(throws: SigningError.self) {
            try BundleSigner(keys: [PrivateKey.generate()]).sign(path, created: 0, to: folder / "out")
        }
        #expect(error?.code == "image-too-large")
        #expect(folder.names() == ["image"])
    }
}
