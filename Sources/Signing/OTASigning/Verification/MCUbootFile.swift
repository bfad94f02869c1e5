public import OTAFirmware

/// A complete MCUboot image that was parsed from a file.
///
/// If the image contains its SHA-256 and is not encrypted, the parser checks this digest. The parser does not verify the signature.
public struct MCUbootFile: Sendable {
    /// The bytes to send, from the header to the last TLV.
    ///
    /// The file can also contain the slot's padding and trailer. otaflash does not send the padding and the trailer, because they are not
    /// signed. An attacker could add a trailer that makes the bootloader treat the new image as confirmed.
    public let bytes: [UInt8]
    public let image: MCUbootImage
    /// All bytes of the file.
    public let file: [UInt8]

    /// Parses the contents of a file. After the last TLV, only the slot's padding and trailer may follow.
    ///
    /// - Throws: `wrong-image-format` for a file that is not an MCUboot image; the other errors of `FirmwareInspector`.
    public init(parsing file: [UInt8]) throws(ImageError) {
        let description = try FirmwareInspector.inspect(file, format: .mcuboot) { SHA256() }
        guard case .mcuboot(let image) = description.details else {
            preconditionFailure("the inspector found a format other than the given one")
        }
        bytes = file.count == image.length ? file : Array(file.prefix(Int(image.length)))
        self.image = image
        self.file = file
    }

    /// The bytes that the digest and the signature cover: header, body and protected TLVs.
    var signedBytes: ArraySlice<UInt8> { bytes.prefix(Int(image.signedLength)) }
}
