import OTASigning

extension SecretBytes {
    convenience init(_ text: String) { self.init(copying: Array(text.utf8)) }

    var bytes: [UInt8] { withUnsafeBytes { Array($0) } }
    var text: String { String(decoding: bytes, as: UTF8.self) }
}

extension Passphrase {
    init(_ text: String) throws(KeyError) { try self.init(SecretBytes(text)) }
}

/// Encodes bytes as Base64 (RFC 4648, with padding).
func base64(_ bytes: [UInt8]) -> String {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    return stride(from: 0, to: bytes.count, by: 3).map { start in
        let group = bytes[start..<min(start + 3, bytes.count)]
        let bits = group.reduce(0) { $0 << 8 | Int($1) } << (8 * (3 - group.count))
        let digits = (0...group.count).map { alphabet[bits >> (18 - 6 * $0) & 63] }
        return String(digits) + String(repeating: "=", count: 3 - group.count)
    }.joined()
}
