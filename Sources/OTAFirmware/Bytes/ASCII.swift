extension UInt8 {
    /// A–Z, a–z, 0–9.
    var isASCIILetterOrDigit: Bool {
        switch self {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }

    /// A character that can be seen, or a space: what may be shown on a terminal as it is.
    var isPrintableASCII: Bool { (0x20...0x7E).contains(self) }
}

/// Foreign bytes as text for people: printable ASCII as it is, all else as `\xNN`, so that nothing in a file can speak
/// to a terminal. Cut after 80 bytes.
func quoted(_ bytes: some Collection<UInt8>) -> String {
    let shown = bytes.prefix(80).map { byte in
        switch byte {
        case UInt8(ascii: "\\"), UInt8(ascii: "\""): "\\" + String(UnicodeScalar(byte))
        case _ where byte.isPrintableASCII: String(UnicodeScalar(byte))
        default: "\\x" + Hex.encode([byte])
        }
    }
    return "\"" + shown.joined() + "\"" + (bytes.count > 80 ? "… (\(bytes.count) bytes)" : "")
}
