/// The init packet (`.dat`) of a package for Nordic Legacy DFU, as `adafruit-nrfutil dfu genpkg` writes it.
///
/// All integers are little-endian. The source is `init_packet.py` and `package.py` of adafruit-nrfutil 0.5.3.
public struct LegacyInitPacket: Sendable, Hashable {
    /// The type of the device (Adafruit: 0x0052); 0xFFFF if the package names none.
    public let deviceType: UInt16
    /// The revision of the device (nRF52840 boards: 52840); 0xFFFF if the package names none.
    public let deviceRevision: UInt16
    /// The version of the application; 0xFFFFFFFF if the package names none.
    public let applicationVersion: UInt32
    /// The firmware ids of the SoftDevices that the image runs with. The id 0xFFFE means any SoftDevice.
    public let softDevices: [UInt16]
    /// The CRC-16/CCITT-FALSE of the image; nil if `digest` is not nil.
    public let checksum: UInt16?
    /// The SHA-256 of the image; nil if `checksum` is not nil.
    public let digest: SHA256Digest?
    /// The length of the image in bytes; nil if `digest` is nil.
    let imageLength: UInt32?
    public let signature: NordicSignature?
    /// The bytes that the signature covers: the init packet before the signature.
    public let signedBytes: [UInt8]

    /// The values of the field after the SoftDevices: the rest is a CRC-16, a digest, or a digest with a signature.
    private enum Extension {
        static let checksum: UInt32 = 0
        static let digest: UInt32 = 1
        static let signature: UInt32 = 2
    }

    /// Parses an init packet. Its length determines the rest after the SoftDevices:
    ///
    /// - 2 bytes: a CRC-16 (`--dfu-ver 0.5`, the default);
    /// - 6 bytes: the extension 0 and a CRC-16 (0.6);
    /// - 40 bytes: the extension 1, the length of the image and its SHA-256 (0.7);
    /// - 104 bytes: the extension 2, the length, the SHA-256, and an ECDSA P-256 signature (0.8): r and s, 32 bytes each, big-endian.
    ///
    /// - Throws: `bad-init-packet`.
    init(_ bytes: [UInt8]) throws(PackageError) {
        var reader = ByteReader(bytes)
        do {
            deviceType = try reader.read()
            deviceRevision = try reader.read()
            applicationVersion = try reader.read()
            var softDevices: [UInt16] = []
            for _ in 0..<(try reader.read(UInt16.self)) { softDevices.append(try reader.read()) }
            self.softDevices = softDevices
            let rest = reader.remaining
            let kind = rest == 2 ? Extension.checksum : try reader.read(UInt32.self)
            switch (kind, rest) {
            case (Extension.checksum, 2), (Extension.checksum, 6):
                checksum = try reader.read()
                (digest, imageLength, signature) = (nil, nil, nil)
                signedBytes = []
            case (Extension.digest, 40), (Extension.signature, 104):
                checksum = nil
                imageLength = try reader.read(UInt32.self)
                digest = SHA256Digest(bytes: try reader.read(32))
                signedBytes = Array(bytes.prefix(reader.offset))
                signature = kind == Extension.signature ? .ecdsaP256(Array(try reader.read(64))) : nil
            default:
                throw PackageError(
                    .badInitPacket,
                    "the legacy init packet has \(rest) bytes after the SoftDevices, with the extension \(kind); "
                        + "expected a CRC-16 (2 or 6 bytes), a digest (40) or a signed digest (104)")
            }
        } catch let error as PackageError {
            throw error
        } catch {
            throw PackageError(
                .badInitPacket, "the legacy init packet has \(bytes.count) bytes, and ends inside a field")
        }
    }
}
