import OTAFirmware
import OTASigning

/// A small MCUboot image whose TLVs can be changed one by one.
struct ForgedImage {
    /// Header, body and protected TLVs.
    let signed: [UInt8]
    var plain: [MCUbootTLV]

    init(signed: [UInt8], plain: [MCUbootTLV]) {
        self.signed = signed
        self.plain = plain
    }

    /// Creates an image with a valid signature.
    init(small key: PrivateKey, _ scheme: MCUbootSigner.Scheme = .digest, counter: UInt32? = nil) throws {
        try self.init(small: ImagePrivateKey(key), scheme, counter: counter)
    }

    /// Creates an image with a valid signature.
    init(small key: ImagePrivateKey, _ scheme: MCUbootSigner.Scheme = .digest, counter: UInt32? = nil) throws {
        var layout = MCUbootLayout(version: try mcubootVersion("1.2.3+4"), headerSize: 32)
        layout.padsHeader = true
        layout.securityCounter = counter
        let made = try MCUbootSigner(key: key, scheme: scheme).sign(Array(0..<64), as: layout)
        let image = try MCUbootFile(parsing: made).image
        signed = Array(made.prefix(Int(image.signedLength)))
        plain = image.tlvs
    }

    /// Creates an image with these protected TLVs and a valid signature over its SHA-256.
    init(small key: PrivateKey, protected: [MCUbootTLV]) throws {
        let area = Self.area(0x6908, protected)
        var bytes = Array(try ForgedImage(small: key).signed)
        bytes[10] = UInt8(area.count)
        signed = bytes + area
        let digest = SHA256.digest(of: signed).bytes
        plain = [
            MCUbootTLV(type: MCUbootTLV.sha256, value: digest),
            MCUbootTLV(type: MCUbootTLV.keyHash, value: SHA256.digest(of: key.publicKey.subjectPublicKeyInfo).bytes),
            MCUbootTLV(type: MCUbootTLV.ed25519, value: try key.sign(digest)),
        ]
    }

    var bytes: [UInt8] { signed + Self.area(0x6907, plain) }

    /// The value of the first TLV of a type; empty if the image has no such TLV.
    subscript(type: UInt16) -> [UInt8] {
        get { plain.first { $0.type == type }?.value ?? [] }
        set { replace(type, with: MCUbootTLV(type: type, value: newValue)) }
    }

    mutating func replace(_ type: UInt16, with tlv: MCUbootTLV) {
        if let index = plain.firstIndex(where: { $0.type == type }) { plain[index] = tlv }
    }

    /// Returns the bytes with one byte changed.
    func changing(_ index: Int, to value: UInt8) -> [UInt8] {
        var bytes = self.bytes
        bytes[index] = value
        return bytes
    }

    private static func area(_ magic: UInt16, _ tlvs: [MCUbootTLV]) -> [UInt8] {
        var writer = ByteWriter()
        writer.write(magic)
        writer.write(UInt16(tlvs.reduce(4) { $0 + 4 + $1.value.count }))
        for tlv in tlvs {
            writer.write(tlv.type)
            writer.write(UInt16(tlv.value.count))
            writer.write(tlv.value)
        }
        return writer.bytes
    }
}
