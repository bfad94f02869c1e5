public import OTAFirmware

/// An MCUboot image read from a file: whole, and its SHA-256 right where it carries one. Who made it is not asked.
public struct MCUbootFile: Sendable {
    /// From the header to the last TLV, which is what is sent. The slot's padding and trailer, which nobody signs and
    /// which may mark an image as confirmed, are left out.
    public let bytes: [UInt8]
    public let image: MCUbootImage
    /// All of it.
    public let file: [UInt8]

    /// Reads all that a file holds.
    public init(parsing file: [UInt8]) throws(ImageError) {
        let description = try FirmwareInspector.inspect(file, format: .mcuboot) { SHA256() }
        guard case .mcuboot(let image) = description.details else {
            preconditionFailure("an inspector that was told the format found another")
        }
        bytes = file.count == image.length ? file : Array(file.prefix(Int(image.length)))
        self.image = image
        self.file = file
    }

    /// Header, body and protected TLVs: what digest and signature cover.
    var signedBytes: ArraySlice<UInt8> { bytes.prefix(Int(image.signedLength)) }
}
