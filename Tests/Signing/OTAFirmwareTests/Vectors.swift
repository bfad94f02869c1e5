import OTAFirmware
import Testing

/// Decodes hex digits. White space is ignored.
func hex(_ text: String) throws -> [UInt8] {
    try #require(Hex.decode(text.filter { !$0.isWhitespace }))
}

func digest(_ text: String) throws -> SHA256Digest {
    let bytes = try hex(text)
    return try #require(SHA256Digest(bytes: bytes))
}

func keyID(_ text: String) throws -> KeyID {
    let bytes = try hex(text)
    return try #require(KeyID(bytes: bytes))
}
