import Glibc
import OTASigning
import SystemPackage
import Testing

/// Each test runs with a file without a name, and with a temporary name as on file systems that do not support the former.
@Suite("Writing the output file", .serialized) struct OutputFileTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func write(_ text: String, _ name: String = "out", replaces: Bool = false, named: Bool) throws {
        let file = try OutputFile(folder / name, replaces: replaces, named: named)
        try Array(text.utf8).withUnsafeBytes { try file.write($0, at: 0) }
        try file.commit()
    }

    private func text(_ name: String = "out") throws -> String {
        String(decoding: try contents(of: folder / name), as: UTF8.self)
    }

    @Test("the file appears under its name only after the commit", arguments: [false, true])
    func appearsWhenItIsComplete(named: Bool) throws {
        let file = try OutputFile(folder / "out", replaces: false, named: named)
        try Array("world".utf8).withUnsafeBytes { try file.write($0, at: 6) }
        try Array("hello ".utf8).withUnsafeBytes { try file.write($0, at: 0) }
        #expect(!folder.names().contains("out"))
        #expect(folder.names().isEmpty == !named)
        try file.commit()
        #expect(folder.names() == ["out"])
        #expect(try text() == "hello world")
    }

    @Test("a file without a commit leaves nothing in the folder", arguments: [false, true])
    func leavesNothingBehindWhenItIsGivenUp(named: Bool) throws {
        for replaces in [false, true] {
            let file = try OutputFile(folder / "out", replaces: replaces, named: named)
            try Array("text".utf8).withUnsafeBytes { try file.write($0, at: 0) }
            withExtendedLifetime(file) {}
        }
        #expect(folder.names() == [])
    }

    @Test("an existing file is not overwritten", arguments: [false, true])
    func overwritesNothing(named: Bool) throws {
        try folder.write("out", "mine".utf8)
        #expect(throws: SigningError.refused(.outputExists, context: "")) { try write("new", named: named) }
        #expect(try text() == "mine")
        #expect(folder.names() == ["out"])
    }

    @Test(
        "a file that another program creates, changes or replaces before the commit is kept", arguments: [false, true])
    func overwritesNothingThatCameInBetween(named: Bool) throws {
        for replaces in [false, true] {
            let file = try OutputFile(folder / "out", replaces: replaces, named: named)
            try folder.write("out", "mine".utf8)
            let error = SigningError.refused(replaces ? .outputChanged : .outputExists, context: "")
            #expect(throws: error) { try file.commit() }
            #expect(try text() == "mine")
            unlink((folder / "out").string)
        }
        try folder.write("out", "old".utf8)
        let files = try (0..<2).map { _ in try OutputFile(folder / "out", replaces: true, named: named) }
        for (number, file) in files.enumerated() {
            try Array("text \(number)".utf8).withUnsafeBytes { try file.write($0, at: 0) }
        }
        try files[1].commit()
        #expect(throws: SigningError.refused(.outputChanged, context: "")) { try files[0].commit() }
        #expect(try text() == "text 1")
        unlink((folder / "out").string)
        withExtendedLifetime(files) {}
    }

    @Test("a replacement is atomic, and an open reader keeps the old file", arguments: [false, true])
    func replacesWhereItMay(named: Bool) throws {
        try folder.write("out", "old, and longer".utf8)
        let reader = try FileDescriptor.open(folder / "out", .readOnly)
        defer { try? reader.close() }
        try write("new", replaces: true, named: named)
        #expect(try text() == "new")
        #expect(folder.names() == ["out"])
        #expect(try reader.stat().size == 15)
    }

    @Test("a symbolic link at the output path is replaced, not followed", arguments: [false, true])
    func aLinkIsNotFollowed(named: Bool) throws {
        try folder.write("target", "mine".utf8)
        #expect(symlink("target", (folder / "link").string) == 0)
        #expect(symlink("nowhere", (folder / "dangling").string) == 0)
        for name in ["link", "dangling"] {
            #expect(throws: SigningError.refused(.outputExists, context: "")) { try write("x", name, named: named) }
        }
        try write("new", "link", replaces: true, named: named)
        #expect(try text("target") == "mine")
        #expect(try text("link") == "new")
        #expect(folder.names() == ["dangling", "link", "target"])
    }

    @Test("an output path in a missing folder, or of a folder or device, is refused", arguments: [false, true])
    func whereNoFileCanBeIsRefused(named: Bool) throws {
        let inner = try folder.makeFolder("inner")
        func code(_ path: FilePath, replaces: Bool) -> String? {
            #expect(throws: SigningError.self) { try OutputFile(path, replaces: replaces, named: named) }?.code
        }
        #expect(code(folder / "missing/out", replaces: false) == "cannot-create")
        #expect(code(inner, replaces: false) == "output-exists")
        #expect(code(inner, replaces: true) == "cannot-create")
        #expect(code("/dev/null", replaces: true) == "cannot-create")
        #expect(code("/dev/null", replaces: false) == "output-exists")
        #expect(folder.names() == ["inner"])
    }

    @Test("a file name without a folder is in the current folder")
    func aNameOfTheCurrentFolderWillDo() throws {
        let name = "otaflash-output-\(UInt64.random(in: .min ... .max))"
        defer { unlink(name) }
        let file = try OutputFile(FilePath(name), replaces: false)
        try file.commit()
        #expect(try contents(of: FilePath(name)) == [])
    }
}
