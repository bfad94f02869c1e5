internal import OTAFirmware

extension String {
    /// The string as one quoted word of a shell command. The result contains only printable characters.
    package var shellQuoted: String {
        if !isEmpty, utf8.allSatisfy(Self.isPlain) { return self }
        if !isPrintable { return ansiQuoted }
        return "'" + split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
    }

    /// The string in dollar-single-quotes (POSIX.1-2024, 2.2.4). An octal escape always ends after three digits, so the next character
    /// cannot change it.
    private var ansiQuoted: String {
        var word = "$'"
        for scalar in unicodeScalars {
            switch scalar {
            case "'", "\\": word += "\\\(scalar)"
            case _ where scalar.isUnprintable: word += String(scalar).utf8.map(Self.octal).joined()
            default: word.unicodeScalars.append(scalar)
            }
        }
        return word + "'"
    }

    private static func octal(_ byte: UInt8) -> String {
        "\\\(byte >> 6)\(byte >> 3 & 7)\(byte & 7)"
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"):
            true
        default: "/._-+@%=:,".utf8.contains(byte)
        }
    }
}
