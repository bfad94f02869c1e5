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
    fileprivate var unit: Int { max(8, alignment) }

    /// The magic's 16 bytes, rounded up.
    fileprivate var alignedMagicSize: Int { max(16, unit) }
}

/// An MCUboot image in the making, to the byte as imgtool 2.5.0 makes it (`image.py`).
public struct MCUbootDraft: Sendable {
    private let layout: MCUbootLayout
    /// At first what digest and signature cover: header, body and protected TLVs.
    public private(set) var bytes: [UInt8]

    /// - Parameters:
    ///   - program: with room for the header in front, unless the layout has it made. Then at least as long as it.
    public init(_ program: [UInt8], _ layout: MCUbootLayout) {
        self.layout = layout
        let headerSize = Int(layout.headerSize)
        let padding = [UInt8](repeating: layout.erasedValue, count: layout.padsHeader ? headerSize : 0)
        let protected = Self.protectedArea(layout)
        let bodySize = padding.count + program.count - headerSize
        var header = MCUbootHeader.bytes(
            layout, protectedTLVSize: UInt16(clamping: protected.count), bodySize: UInt32(clamping: bodySize))
        header += (padding + program).dropFirst(header.count)
        bytes = header + protected
    }

    /// Ends the image with these TLVs, which nothing protects.
    public mutating func close(with tlvs: [MCUbootTLV]) { bytes += Self.area(0x6907, tlvs) }

    /// Fills the slot, as the layout says.
    public mutating func fillSlot() {
        guard layout.filling != .none, let slotSize = layout.slotSize else { return }
        var rest = [UInt8](repeating: layout.erasedValue, count: Int(slotSize) - bytes.count)
        rest.replaceSubrange((rest.count - 16)..., with: MCUbootTrailer.magic(unit: layout.unit))
        if layout.filling == .confirmedTrailer { rest[rest.count - layout.alignedMagicSize - layout.unit] = 1 }
        bytes += rest
    }

    private static func protectedArea(_ layout: MCUbootLayout) -> [UInt8] {
        var tlvs: [MCUbootTLV] = []
        if let counter = layout.securityCounter {
            var writer = ByteWriter()
            writer.write(counter)
            tlvs.append(MCUbootTLV(type: MCUbootTLV.securityCounter, value: writer.bytes))
        }
        tlvs += layout.dependencies.map {
            MCUbootTLV(type: MCUbootTLV.dependency, value: [$0.image, 0, 0, 0] + $0.version.bytes)
        }
        return tlvs.isEmpty ? [] : area(0x6908, tlvs)
    }

    private static func area(_ magic: UInt16, _ tlvs: [MCUbootTLV]) -> [UInt8] {
        var entries = ByteWriter()
        for tlv in tlvs {
            entries.write(tlv.type)
            entries.write(UInt16(clamping: tlv.value.count))
            entries.write(tlv.value)
        }
        var area = ByteWriter()
        area.write(magic)
        area.write(UInt16(clamping: entries.bytes.count + 4))
        area.write(entries.bytes)
        return area.bytes
    }
}
