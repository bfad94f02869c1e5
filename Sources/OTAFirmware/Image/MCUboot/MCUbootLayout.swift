/// How a program becomes an MCUboot image: what imgtool's options of the same names say.
public struct MCUbootLayout: Sendable, Hashable {
    /// What lies behind the image, up to the slot's end.
    public enum Filling: Sendable, Hashable {
        /// The file ends with the image.
        case none
        /// Erased bytes and the bootloader's trailer, by which a slot is tried at the next boot.
        case trailer
        /// The same, and the image counts as confirmed.
        case confirmedTrailer
    }

    /// Another image of the device, and the lowest version it may have.
    public struct Dependency: Sendable, Hashable {
        public let image: UInt8
        public let version: MCUbootImage.Version

        public init(image: UInt8, version: MCUbootImage.Version) {
            self.image = image
            self.version = version
        }
    }

    public static let alignments = [1, 2, 4, 8, 16, 32]
    /// Of the fields in front of a body, without padding.
    public static let minimumHeaderSize: UInt16 = 32

    public var version: MCUbootImage.Version
    /// In bytes, at least `minimumHeaderSize`.
    public var headerSize: UInt16
    /// The program does not begin with the zeros in whose place the header comes.
    public var padsHeader = false
    /// In bytes; nil: it is not known, so whether the image fits is not checked, and `filling` is `none`.
    public var slotSize: UInt32?
    public var filling = Filling.none
    /// The unit in which the flash is written, in bytes: one of `alignments`.
    public var alignment = 1
    /// Of the slot, at most: the trailer has room for their states.
    public var maximumSectors: UInt16 = 128
    /// What erased flash reads as.
    public var erasedValue: UInt8 = 0xFF
    public var securityCounter: UInt32?
    public var dependencies: [Dependency] = []

    public init(version: MCUbootImage.Version, headerSize: UInt16) {
        self.version = version
        self.headerSize = max(headerSize, Self.minimumHeaderSize)
    }

    /// The counter that imgtool makes of a version with `--security-counter auto`.
    public static func securityCounter(of version: MCUbootImage.Version) -> UInt32 {
        UInt32(version.major) << 24 + UInt32(version.minor) << 16 + UInt32(version.revision)
    }

    /// The bootloader's share of the slot's end, in bytes (imgtool 2.5.0, `_trailer_size`).
    public var trailerSize: UInt64 {
        let states = UInt64(maximumSectors) * 3 * UInt64(alignment)
        return states + UInt64(4 * unit + alignedMagicSize)
    }

    /// What the flags of the trailer are aligned to.
    var unit: Int { max(8, alignment) }

    /// The magic's 16 bytes, rounded up.
    var alignedMagicSize: Int { max(16, unit) }
}
