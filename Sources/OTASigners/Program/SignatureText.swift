internal import OTAFirmware

/// Decodes the output of a signing program.
package enum SignatureText {
    /// The length of an Ed25519 signature, in bytes.
    static let length = 64

    /// Returns the signature; nil if the output is not 64 raw bytes, or the Base64 or the hex digits of 64 bytes with white space between
    /// them.
    package static func decode(_ output: [UInt8]) -> [UInt8]? {
        if output.count == length { return output }
        let text = output.filter { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
        if text.count == 2 * length { return Hex.decode(String(decoding: text, as: UTF8.self)) }
        var decoder = Base64.Decoder()
        guard text.count == 88, decoder.append(text), decoder.bytes.count == length else { return nil }
        return decoder.bytes
    }
}
