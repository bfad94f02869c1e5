/// Encodes and decodes Base64 (RFC 4648, with padding). Unlike the decoder of Foundation, this decoder accepts the text in parts.
package enum Base64 {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let padding = UInt8(ascii: "=")

    package static func encode(_ bytes: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            let bits = group.reduce(0) { $0 << 8 | UInt32($1) } << (8 * (3 - UInt32(group.count)))
            for place in 0...3 {
                let isPadding = place > group.count
                text.append(isPadding ? padding : alphabet[Int(bits >> (18 - 6 * UInt32(place)) & 0x3F)])
            }
        }
        return text
    }

    /// Decodes a complete Base64 text. Returns nil if the text is not valid Base64.
    package static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var decoder = Decoder()
        guard decoder.append(text), decoder.digits == 0 else { return nil }
        return decoder.bytes
    }

    /// Decodes a Base64 text that arrives in parts of any length.
    package struct Decoder: Sendable {
        /// The decoded bytes of all parts so far.
        package private(set) var bytes: [UInt8] = []
        private var bits: UInt32 = 0
        fileprivate var digits = 0
        private var paddings = 0

        package init() {}

        /// Decodes the next part of the text. Returns false if the text is not valid Base64.
        package mutating func append(_ text: some Sequence<UInt8>) -> Bool {
            for character in text {
                guard paddings == 0 || character == Base64.padding else { return false }
                if character == Base64.padding {
                    paddings += 1
                    guard digits + paddings <= 4, digits >= 2 else { return false }
                    if digits + paddings == 4 { finishGroup() }
                } else {
                    guard let digit = Self.value(of: character) else { return false }
                    bits = bits << 6 | UInt32(digit)
                    digits += 1
                    if digits == 4 { finishGroup() }
                }
            }
            return true
        }

        private mutating func finishGroup() {
            let group = bits << (6 * (4 - UInt32(digits)))
            let whole = [UInt8(group >> 16 & 0xFF), UInt8(group >> 8 & 0xFF), UInt8(group & 0xFF)]
            bytes += whole.prefix(digits - 1)
            (bits, digits) = (0, 0)
        }

        private static func value(of character: UInt8) -> UInt8? {
            switch character {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): character - UInt8(ascii: "A")
            case UInt8(ascii: "a")...UInt8(ascii: "z"): character - UInt8(ascii: "a") + 26
            case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0") + 52
            case UInt8(ascii: "+"): 62
            case UInt8(ascii: "/"): 63
            default: nil
            }
        }
    }
}
