/// The parameters of a new MCUboot image. They have the same names as the options of imgtool.
public struct MCUbootLayout: Sendable, Hashable {
    /// The bytes between the image and the slot's end.
    public enum Filling: Sendable, Hashable {
        /// The file ends with the image.
        case none
        /// Erased bytes and the bootloader's trailer. The trailer requests a trial of the image at the next boot.
        case trailer
        /// Erased bytes and a trailer that marks the image as confirmed.
        case confirmedTrailer
    }

    /// A requirement for another image of the device: its number and its lowest version.
    public struct Dependency: Sendable, Hashable {
        public let image: UInt8
        public let version: MCUbootImage.Version

        public init(image: UInt8, version: MCUbootImage.Version) {
            self.image = image
            self.version = version
        }
    }

    /// The supported values of `alignment`.
    public static let alignments = [1, 2, 4, 8, 16, 32]
    /// The length of the header without padding, in bytes.
    public static let minimumHeaderSize: UInt16 = 32

    public var version: MCUbootImage.Version
    /// The length of the header with its padding in bytes, at least `minimumHeaderSize`.
    public var headerSize: UInt16
    /// Whether the header is added in front of the program. Otherwise the header replaces the program's first bytes.
    public var padsHeader = false
    /// The slot's size in bytes. If it is nil, the image's size is not checked, and `filling` must be `none`.
    public var slotSize: UInt32?
    public var filling = Filling.none
    /// The flash's write unit in bytes: one of `alignments`.
    public var alignment = 1
    /// The largest number of sectors in the slot. The trailer contains a state for each sector.
    public var maximumSectors: UInt16 = 128
    /// The value of erased flash.
    public var erasedValue: UInt8 = 0xFF
    public var securityCounter: UInt32?
    public var dependencies: [Dependency] = []

    public init(version: MCUbootImage.Version, headerSize: UInt16) {
        self.version = version
        self.headerSize = max(headerSize, Self.minimumHeaderSize)
    }

    /// Returns the counter of a version as imgtool's `--security-counter auto` computes it.
    public static func securityCounter(of version: MCUbootImage.Version) -> UInt32 {
        UInt32(version.major) << 24 + UInt32(version.minor) << 16 + UInt32(version.revision)
    }

    /// The length of the bootloader's trailer at the slot's end, in bytes (imgtool 2.5.0, `_trailer_size`).
    public var trailerSize: UInt64 {
        let states = UInt64(maximumSectors) * 3 * UInt64(alignment)
        return states + UInt64(4 * unit + alignedMagicSize)
    }

    /// The alignment of the trailer's flags in bytes.
    fileprivate var unit: Int { max(8, alignment) }

    /// The length of the magic with its alignment in bytes.
    fileprivate var alignedMagicSize: Int { max(16, unit) }
}

/// An incomplete MCUboot image. The complete image is identical to the output of imgtool 2.5.0 (`image.py`).
public struct MCUbootDraft: Sendable {
    private let layout: MCUbootLayout
    /// The image's bytes. Before `close(with:)`, they are header, body and protected TLVs: the bytes that digest and signature cover.
    public private(set) var bytes: [UInt8]

    /// - Parameters:
    ///   - program: the firmware. If the layout does not pad the header, the program begins with space for the header, and must not
    ///     be shorter than it.
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

    /// Ends the image with TLVs that the digest and the signature do not cover.
    public mutating func close(with tlvs: [MCUbootTLV]) { bytes += Self.area(0x6907, tlvs) }

    /// Fills the slot as the layout requires.
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
