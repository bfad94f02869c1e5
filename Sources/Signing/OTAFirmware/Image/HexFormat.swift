/// A text format for the bytes of an image and their addresses. Each line is a record with a checksum.
public enum HexFormat: Sendable, Hashable {
    case intelHex
    /// Motorola S-records. The usual suffixes of a file name are `.s19`, `.s28`, `.s37`, `.srec` and `.mot`.
    case sRecord

    /// The name of the format in messages.
    public var name: String {
        switch self {
        case .intelHex: "Intel HEX"
        case .sRecord: "S-record"
        }
    }

    /// The option of `srec_cat` that selects the format.
    var option: String { self == .intelHex ? "-intel" : "-motorola" }

    /// The name of the format for `objcopy`.
    package var objcopyName: String { self == .intelHex ? "ihex" : "srec" }

    /// Returns the format of a text from its first record. Returns nil if the first line that is not blank or a comment is not a record.
    static func detect(_ text: [UInt8]) -> HexFormat? {
        text.withUnsafeBytes { text in
            var lines = HexLines(text)
            guard lines.skipToRecord() else { return nil }
            let start = lines.unread.prefix(11)
            // The shortest Intel HEX record has 11 characters: a colon and the hex digits of length, address, type and checksum. The shortest
            // S-record has 10 characters: the letter S, the type, and the hex digits of length, address and checksum.
            if start.count == 11, start.first == UInt8(ascii: ":"), start.dropFirst().allSatisfy(isDigit) {
                return .intelHex
            }
            let isSRecord = start.count >= 10 && start.first == UInt8(ascii: "S")
            return isSRecord && start.prefix(10).dropFirst().allSatisfy(isDigit) ? .sRecord : nil
        }
    }

    private static func isDigit(_ character: UInt8) -> Bool { Hex.value(ofDigit: character) != nil }
}
