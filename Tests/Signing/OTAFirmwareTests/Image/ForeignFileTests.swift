import OTAFirmware
import OTATestSupport
import OTAUpdate
import Testing

@Suite("Files that are not firmware") struct ForeignFileTests {
    /// The starts of files that the named programs wrote.
    private static let starts: [(String, [UInt8])] = [
        ("gzip", [0x1F, 0x8B, 0x08, 0x08, 0x5A, 0x1C]), ("xz", [0xFD, 0x37, 0x7A, 0x58, 0x5A, 0x00, 0x00, 0x04]),
        ("bzip2", Array("BZh91AY&SY".utf8)), ("zstd", [0x28, 0xB5, 0x2F, 0xFD, 0x04, 0x00]),
        ("tar", [UInt8](repeating: 0x61, count: 257) + Array("ustar\u{0}00".utf8)), ("PE", [0x4D, 0x5A, 0x90, 0, 3]),
        ("PNG", [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]), ("JPEG", [0xFF, 0xD8, 0xFF, 0xE0, 0, 0x10]),
        ("GIF", Array("GIF89a".utf8) + [1, 0]), ("PDF", Array("%PDF-1.7\n".utf8) + [0x25, 0xE2]),
        ("DfuSe", Array("DfuSe".utf8) + [1, 0x2D]), ("Mach-O", [0xCF, 0xFA, 0xED, 0xFE, 7, 0, 0, 1]),
        ("SQLite", Array("SQLite format 3\u{0}".utf8) + [0x10]), ("GBL", [0xEB, 0x17, 0xA6, 0x03, 8, 0, 0, 0]),
        ("big-endian", [0x96, 0xF3, 0xB8, 0x3D, 0, 0, 0, 0]), ("old format", [0x3C, 0xB8, 0xF3, 0x96, 0, 0, 0, 0]),
        ("ar archive", Array("!<arch>\n".utf8)), ("SUIT", [0xD8, 0x6B, 0xA2, 2, 0x58]),
        ("ELF", [0x7F, 0x45, 0x4C, 0x46, 1, 1, 1]), ("zip", [0x50, 0x4B, 3, 4]),
        ("UF2", [0x55, 0x46, 0x32, 0x0A, 0x57, 0x51, 0x5D, 0x9E]),
    ]

    private static let rest = (0..<600).map { UInt8($0 * 37 % 251) }

    @Test("a file with a known magic number is refused by name, also after 0xFF", arguments: starts)
    func magic(name: String, start: [UInt8]) throws {
        for padding in [0, 1, 512, 5000] {
            let file = [UInt8](repeating: 0xFF, count: padding) + start + Self.rest
            let error = refusal(file)
            #expect(error?.code == .notAnImage)
            #expect(error?.found.contains(name) == true, "\(error?.found ?? "")")
            #expect(FirmwareFileKind.detect(file: file).refusal?.found == error?.found)
            #expect(throws: ImageError.self) { try inspect(file, inChunksOf: 7) }
            #expect(try inspect(file, format: .raw).format == .raw)
        }
    }

    @Test("an image with 0xFF or 0x00 before it is accepted", arguments: [0, 0xFF] as [UInt8])
    func padded(padding: UInt8) throws {
        for count in [1, 20, 4096, 9000] {
            let file = [UInt8](repeating: padding, count: count) + Self.rest
            #expect(try inspect(file).format == .raw)
            #expect(FirmwareFileKind.detect(file: file) == .binary)
        }
    }

    @Test("content of one repeated byte is refused", arguments: [0, 0xFF, 0xA5] as [UInt8], [2, 20, 4097, 70_000])
    func constant(byte: UInt8, count: Int) throws {
        let file = [UInt8](repeating: byte, count: count)
        #expect(refusal(file)?.found.hasPrefix("\(count) times the byte 0x\(Hex.encode([byte]))") == true)
        #expect(throws: ImageError.self) { try inspect(file, inChunksOf: 33) }
        for index in [0, count / 2, count - 1] where count > 2 {
            var other = file
            other[index] ^= 0x81
            #expect(throws: Never.self) { try inspect(other) }
        }
    }

    @Test(
        "text is refused, and the error names its type",
        arguments: [
            ("<!DOCTYPE html>\n<html><body>404 Not Found</body></html>\n", "an HTML page", "download"),
            (
                "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "a Git LFS pointer",
                "git lfs pull"
            ),
            // The output of srec_cat -ti-txt and -vmem (SRecord 1.64).
            ("@800FFF0\n00 07 0E 15 1C 23 2A 31\nq\n", "TI-TXT", "-ti-txt"),
            ("/* http://srecord.sourceforge.net/ */\n@02003FFC 00070E15 1C232A31\n", "text", "build"),
            ("/0010200300070E151C232A31383F464D\n", "Tektronix", "-tektronix"),
            ("AAcOFRwjKjE4P0ZNVFtiaXB3foWMk5qhqK+2vcTL0tng5+71/AMKEQ==\n", "Base64", "base64 -d"),
            ("00000000: 0007 0e15 1c23 2a31 383f 464d 545b 6269  .....#*18?FMT[bi\n", "a hex dump", "xxd -r"),
            ("00070e151c232a31383f464d545b6269\n", "hex digits", "xxd -r -p"),
            ("note\n-----BEGIN PRIVATE KEY-----\nAAAA\n", "a key or a certificate", "--key"),
            ("{\"a\": 1}\n", "JSON", "binary"), ("#!/bin/sh\nexit\n", "a script", "binary"),
            ("Größe: 3 kB\n", "text", "binary"), ("Gr\u{1B}[1mün\n", "text", "binary"), ("A\n", "text", "binary"),
            ("Ошибка: файл не найден\n", "text", "binary"), ("404: Not Found", "text", "binary"),
        ])
    func text(text: String, name: String, hint: String) {
        let bytes = Array(text.utf8)
        let padded = [bytes + [0, 0, 0], [0xFF, 0xFF] + bytes, [0] + bytes + [0xFF, 0xFF]]
        for file in [bytes, [0xEF, 0xBB, 0xBF] + bytes] + (bytes.count < 16 ? [] : padded) {
            let error = refusal(file)
            #expect(error?.code == .notAnImage)
            #expect(error?.found.contains(name) == true, "\(error?.found ?? "")")
            let advice = error?.hint ?? "give the binary"
            #expect(advice.contains(hint), "\(advice)")
        }
    }

    @Test("UTF-16 text, a DFU suffix and a merged flash image of esptool are refused by name")
    func others() {
        let utf16: [UInt8] = [0xFF, 0xFE] + Array(":10000000".utf8.map { [$0, 0] }.joined())
        #expect(refusal(utf16)?.found == "UTF-16 text")
        let suffix: [UInt8] = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 1, 0x55, 0x46, 0x44, 0x10, 1, 2, 3, 4]
        #expect(refusal(Self.rest + suffix)?.hint?.contains("dfu-suffix -D") == true)
        let merged = [UInt8](repeating: 0xFF, count: 0x1000) + [0xE9, 3, 2, 0x20] + Self.rest
        #expect(refusal(merged)?.found.contains("merged flash image") == true)
    }

    @Test("text with a control character, or with many bytes that are not ASCII, is an image")
    func almostText() throws {
        #expect(throws: Never.self) { try inspect(Array("text\u{1}text".utf8)) }
        #expect(throws: Never.self) { try inspect([UInt8](repeating: 0x80, count: 9) + Array("abcdefgh".utf8)) }
        #expect(throws: Never.self) { try inspect(Array("text\u{0}text".utf8)) }
        // Latin-1: one byte in eight is not UTF-8.
        for (strays, isText) in [(1, true), (2, false)] {
            let file = Array("0123456789abcdef".utf8.prefix(15 - strays)) + [UInt8](repeating: 0xF6, count: strays)
            #expect((FirmwareFileKind.detect(file: file) != .binary) == isText)
        }
        #expect(FirmwareFileKind.detect(file: Array("A".utf8)) == .binary)
        for (length, isText) in [(15, false), (16, true)] {
            let text = Array("0123456789abcdef".utf8.prefix(length))
            for file in [text + [0xFF], [0] + text] {
                #expect((FirmwareFileKind.detect(file: file) != .binary) == isText)
            }
        }
    }

    @Test("images with random bytes are accepted, also small ones and with padding")
    func randomImages() throws {
        var random = SplitMix64(seed: 12)
        for _ in 0..<2000 {
            let count = Int.random(in: 32...600, using: &random)
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            for file in [bytes, [UInt8](repeating: 0xFF, count: 64) + bytes, bytes + [UInt8](repeating: 0, count: 64)] {
                #expect(FirmwareFileKind.detect(file: file) == .binary)
            }
        }
    }
}
