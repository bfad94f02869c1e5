/// The parameters of a new MCUboot image. Each parameter corresponds to options of imgtool, MCUboot's signing tool.
public struct MCUbootLayout: Sendable, Hashable {
    /// The contents of the file from the end of the image to the end of the slot.
    public enum Filling: Sendable, Hashable {
        /// The file ends with the image.
        case none
        /// The filling consists of erased bytes and the bootloader's trailer. The trailer requests a trial of the image at the next boot.
        case trailer
        /// The filling consists of erased bytes and a trailer that marks the image as confirmed.
        case confirmedTrailer
    }

    /// A condition on another image of the same device: the number of the other image, and its lowest allowed version.
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
    /// The length of a header without padding, in bytes.
    public static let minimumHeaderSize: UInt16 = 32

    public var version: MCUbootImage.Version
    /// The length of the header in bytes, including its padding. It is at least `minimumHeaderSize`.
    public var headerSize: UInt16
    /// Whether the header is inserted before the program. If false, the header replaces the first `headerSize` bytes of the program.
    public var padsHeader = false
    /// The slot's size in bytes. If `slotSize` is nil, the size of the image is not checked, and `filling` must be `none`.
    public var slotSize: UInt32?
    public var filling = Filling.none
    /// The flash's write unit in bytes: one of `alignments`.
    public var alignment = 1
    /// The largest number of sectors in the slot. The bootloader swaps the images sector by sector, and records its progress in the
    /// trailer. Therefore the size of the trailer depends on this number.
    public var maximumSectors: UInt16 = 128
    /// The value of each byte in erased flash.
    public var erasedValue: UInt8 = 0xFF
    public var securityCounter: UInt32?
    public var dependencies: [Dependency] = []

    public init(version: MCUbootImage.Version, headerSize: UInt16) {
        self.version = version
        self.headerSize = max(headerSize, Self.minimumHeaderSize)
    }

    /// Returns the security counter that imgtool's `--security-counter auto` computes from the version.
    public static func securityCounter(of version: MCUbootImage.Version) -> UInt32 {
        UInt32(version.major) << 24 + UInt32(version.minor) << 16 + UInt32(version.revision)
    }

    /// The length of the bootloader's trailer at the end of the slot, in bytes. The formula is from imgtool 2.5.0, `_trailer_size`.
    public var trailerSize: UInt64 {
        let states = UInt64(maximumSectors) * 3 * UInt64(alignment)
        return states + UInt64(4 * unit + alignedMagicSize)
    }

    /// The alignment of the trailer's flags in bytes.
    fileprivate var unit: Int { max(8, alignment) }

    /// The length of the trailer's magic in bytes, including its alignment padding.
    fileprivate var alignedMagicSize: Int { max(16, unit) }
}

/// A builder for an MCUboot image. Except for the random values in an ECDSA or RSA signature, the complete image is identical to the output
/// of imgtool 2.5.0 (`image.py`).
public struct MCUbootDraft: Sendable {
    private let layout: MCUbootLayout
    /// The current bytes of the image. Before `close(with:)`, these are the header, the body and the protected TLVs: exactly the bytes that
    /// the digest and the signature cover.
    public private(set) var bytes: [UInt8]

    /// Creates the header, the body and the protected TLVs.
    ///
    /// - Parameter program: the firmware. If `padsHeader` is false, the header replaces the first `headerSize` bytes of the program. The
    ///   program must then have at least `headerSize` bytes.
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

    /// Appends `tlvs`, which the digest and the signature do not cover. The image is then complete.
    public mutating func close(with tlvs: [MCUbootTLV]) { bytes += Self.area(0x6907, tlvs) }

    /// Appends the bytes that the layout's `filling` requires. The slot must have space for the trailer after the image.
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
