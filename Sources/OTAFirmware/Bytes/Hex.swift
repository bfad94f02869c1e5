/// Bytes as lower-case hex digits.
public enum Hex {
    public static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text = ""
        for byte in bytes {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return text
    }

    private static let digits = Array("0123456789abcdef")
}
