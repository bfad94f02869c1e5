extension ForeignFile {
    /// Returns the type of a text from its first bytes.
    static func text(_ start: [UInt8]) -> ForeignFile {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        let text = String(decoding: start.dropFirst(start.starts(with: mark) ? mark.count : 0), as: UTF8.self)
        let lines = text.split(whereSeparator: \.isNewline)
        let first = lines.first { !$0.allSatisfy(\.isWhitespace) } ?? ""
        if lines.contains(where: { $0.hasPrefix("-----BEGIN ") }), let pem = FirmwareFileKind.pem.refusal {
            return ForeignFile(pem.found, pem.hint)
        }
        for (mark, file) in marks where first.lowercased().hasPrefix(mark) { return file }
        return encoding(first, lines)
            ?? ForeignFile("text", "give the binary that the build creates, such as build/zephyr/zephyr.bin")
    }

    /// The beginnings of texts in lower case.
    private static let marks: [(String, ForeignFile)] = [
        ("<!doctype html", page), ("<html", page), ("<?xml", ForeignFile("XML text")),
        (
            "version https://git-lfs.github.com",
            ForeignFile("a Git LFS pointer, which names a file in another place", "fetch the file: git lfs pull")
        ),
        ("{", ForeignFile("JSON text")), ("#!", ForeignFile("a script")),
        ("untrusted comment:", ForeignFile("a key or a signature of minisign or signify")),
    ]

    private static let page = ForeignFile(
        "an HTML page", "the download may have failed: download the file again (with curl, add --fail)")

    /// Returns the type of a text that encodes binary data: hex digits or Base64.
    private static func encoding(_ first: Substring, _ lines: [Substring]) -> ForeignFile? {
        let convert = "srec_cat app.txt"
        if let mark = first.first, first.dropFirst().allSatisfy(\.isHexDigit), first.count > 1 {
            switch mark {
            case "@":
                return ForeignFile(
                    "TI-TXT or Verilog hex text",
                    "convert it: \(convert) -ti-txt -o app.hex -intel (for Verilog: -vmem in place of -ti-txt)")
            case "%":
                return ForeignFile("Tektronix hex text", "convert it: \(convert) -tektronix-extended -o app.hex -intel")
            case "/": return ForeignFile("Tektronix hex text", "convert it: \(convert) -tektronix -o app.hex -intel")
            case ";":
                return ForeignFile("MOS Technology hex text", "convert it: \(convert) -mos-tech -o app.hex -intel")
            case ":": return ForeignFile("damaged Intel HEX text", "build or fetch it again")
            default: break
            }
        }
        if first.hasPrefix("@"), first.dropFirst().prefix(while: \.isHexDigit).count > 3 {
            return ForeignFile("Verilog hex text", "convert it: \(convert) -vmem -o app.hex -intel")
        }
        let address = first.prefix(while: \.isHexDigit)
        if address.count >= 7, first.dropFirst(address.count).hasPrefix(": ") {
            return ForeignFile("a hex dump", "convert it: xxd -r app.txt app.bin")
        }
        if first.count >= 8, lines.allSatisfy({ $0.allSatisfy { $0.isHexDigit || $0 == " " } }) {
            return ForeignFile("hex digits", "convert them: xxd -r -p app.txt app.bin")
        }
        let isBase64 = lines.allSatisfy {
            $0.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "+/=".contains($0)) }
        }
        return isBase64 && first.count >= 16
            ? ForeignFile("Base64 text", "convert it: base64 -d app.txt > app.bin") : nil
    }
}
