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
