import BlueZ
import ExampleSupport
import Glibc
import Testing

@Suite("Examples: standard input")
struct InputTests {
    private static let text = "Grüße 👋\n\n€"

    @Test("lines are complete at any division of the bytes, and the last line needs no line feed", arguments: 1...15)
    func lines(size: Int) {
        let bytes = Array(Self.text.utf8)
        var splitter = LineSplitter(limit: 100)
        var lines: [String] = []
        for start in stride(from: 0, to: bytes.count, by: size) {
            lines += splitter.add(Array(bytes[start...].prefix(size)))
        }
        #expect(lines == ["Grüße 👋", ""] && splitter.end() == "€" && splitter.end() == nil)
    }

    @Test("a line without an end is cut after one byte more than the limit, and the next line is complete")
    func endless() {
        var splitter = LineSplitter(limit: 10)
        for _ in 0..<1000 { #expect(splitter.add([UInt8](repeating: 0x61, count: 100)) == []) }
        #expect(splitter.add(Array("b\nnext\n".utf8)) == [String(repeating: "a", count: 11), "next"])
    }

    @Test("characters are complete at any division of the bytes", arguments: 1...15)
    func characters(size: Int) {
        let bytes = Array(Self.text.utf8)
        var joiner = CharacterJoiner()
        let parts = stride(from: 0, to: bytes.count, by: size).map { joiner.add(Array(bytes[$0...].prefix(size))) }
        #expect(parts.joined() == Self.text && !parts.joined().contains("\u{FFFD}"))
    }

    @Test("malformed bytes become U+FFFD, and the next character is complete")
    func malformed() {
        var joiner = CharacterJoiner()
        #expect(joiner.add([0x80, 0xFF, 0x61]) == "\u{FFFD}\u{FFFD}a")
        #expect(joiner.add([0xE2, 0x82]) == "" && joiner.add([0x61]) == "\u{FFFD}a")
        #expect(joiner.add([UInt8](repeating: 0x80, count: 5)) == String(repeating: "\u{FFFD}", count: 5))
        #expect(joiner.add([0xC3]) == "" && joiner.add([0xBC]) == "ü")
    }

    @Test("the sequences of arrow keys and function keys are not characters, at any division of the bytes")
    func removesEscapeSequences() {
        let bytes = Array("a\u{1B}[Ab\u{1B}OB\u{1B}[3~cü".utf8)
        for cut in 0...bytes.count {
            var joiner = CharacterJoiner()
            #expect(joiner.add(Array(bytes[..<cut])) + joiner.add(Array(bytes[cut...])) == "abcü")
        }
    }
}

@Suite("Examples: files to write")
struct WritableTests {
    private static let root = "/tmp/writable-\(UInt64.random(in: 0...UInt64.max))"

    @Test("a new file in a folder can be written, and the check leaves no file")
    func new() throws {
        #expect(mkdir(Self.root, 0o700) == 0)
        try checkWritable(Self.root + "/a.png")
        #expect(rmdir(Self.root) == 0)
        try checkWritable("a file in the current folder.png")
    }

    @Test(
        "a folder, a missing folder and an empty name cannot be written", arguments: ["/tmp", "/", "", root + "/b/a"])
    func refused(file: String) {
        #expect(throws: Failure.self) { try checkWritable(file) }
    }
}

@Suite("Examples: the last device")
struct LastDeviceTests {
    @Test("the address is stored in a new folder, with all its parents")
    func makesFolders() throws {
        let root = "/tmp/last-device-\(UInt64.random(in: 0...UInt64.max))"
        defer { for folder in ["/a/b/ble", "/a/b", "/a", ""] { rmdir(root + folder) } }
        let last = LastDevice(of: "ble") { $0 == "XDG_STATE_HOME" ? root + "/a/b" : nil }
        #expect(last.address == nil)
        let address = try #require(BluetoothAddress("AA:BB:CC:DD:EE:FF"))
        last.set(address)
        #expect(last.address == address && unlink(root + "/a/b/ble/last-device") == 0)
    }

    @Test("an empty value and a relative path in XDG_STATE_HOME count as not set", arguments: ["", "state"])
    func ignores(value: String) throws {
        let root = "/tmp/last-device-\(UInt64.random(in: 0...UInt64.max))"
        defer { for folder in ["/.local/state/ble", "/.local/state", "/.local", ""] { rmdir(root + folder) } }
        let last = LastDevice(of: "ble") { ["XDG_STATE_HOME": value, "HOME": root][$0] }
        last.set(try #require(BluetoothAddress("AA:BB:CC:DD:EE:FF")))
        #expect(unlink(root + "/.local/state/ble/last-device") == 0)
    }
}
