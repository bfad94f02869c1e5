/// Parses an MCUboot image.
///
/// The file has these parts in this order: a header, a body, an optional area of protected TLVs, an area of other TLVs, and an optional
/// trailer. `MCUbootTrailer` describes the trailer.
struct MCUbootParser: SectionParser {
    private enum Section {
        case header, body, areaHeader, area, trailer
    }
    private enum Area: UInt16 {
        case plain = 0x6907
        case protected = 0x6908
    }

    var cursor = SectionCursor(length: MCUbootHeader.length)
    private var section = Section.header
    private var area = Area.plain
    /// The received bytes of a header, an area header or an area. The parser does not store the body.
    private var collected: [UInt8] = []
    private var hash: any IncrementalHash

    private var header: MCUbootHeader?
    private var tlvs: [Area: [MCUbootTLV]] = [:]
    private var digest: SHA256Digest?
    private var signedLength: UInt64 = 0
    private var trailer: MCUbootTrailer?

    init(makeHash: () -> any IncrementalHash) {
        hash = makeHash()
    }

    mutating func take(_ bytes: UnsafeRawBufferPointer) throws(ImageError) {
        switch section {
        case .header:
            collected.append(contentsOf: bytes)
            hash.update(bytes)
        case .body:
            hash.update(bytes)
        case .areaHeader, .area:
            collected.append(contentsOf: bytes)
            if area == .protected { hash.update(bytes) }
        case .trailer:
            try trailer?.take(bytes, at: cursor.offset)
        }
    }

    mutating func endSection() throws(ImageError) {
        switch section {
        case .header:
            let header = try MCUbootHeader(collected)
            self.header = header
            begin(.body, length: UInt64(header.headerSize) + UInt64(header.bodySize) - MCUbootHeader.length)
        case .body:
            area = header?.protectedTLVSize == 0 ? .plain : .protected
            begin(.areaHeader, length: 4)
        case .areaHeader:
            try beginArea()
        case .area:
            tlvs[area] = try Self.parse(collected, from: cursor.start)
            if area == .protected {
                area = .plain
                begin(.areaHeader, length: 4)
            } else {
                try checkDigests()
                begin(.trailer, length: .max)
                trailer = MCUbootTrailer(start: cursor.offset)
            }
        case .trailer:
            break
        }
    }

    mutating func finish() throws(ImageError) -> FirmwareDescription {
        guard section == .trailer, let header, let trailer else { throw cursor.truncation }
        let image = MCUbootImage(
            version: header.version, loadAddress: header.loadAddress, headerSize: header.headerSize,
            bodySize: header.bodySize, flags: header.flags, protectedTLVs: tlvs[.protected] ?? [],
            tlvs: tlvs[.plain] ?? [], digest: digest, signedLength: signedLength, length: trailer.start)
        return FirmwareDescription(
            size: cursor.offset, details: .mcuboot(image),
            notes: Self.notes(on: image) + (try trailer.finish(at: cursor.offset)))
    }

    private mutating func begin(_ next: Section, length: UInt64) {
        section = next
        collected = []
        cursor.beginSection(length: length)
    }

    private mutating func beginArea() throws(ImageError) {
        if area == .plain { signedLength = cursor.start }
        var reader = ByteReader(collected)
        let magic: UInt16
        let total: UInt16
        do {
            magic = try reader.read()
            total = try reader.read()
        } catch {
            throw ImageError(error, from: cursor.start)
        }
        guard magic == area.rawValue else {
            throw ImageError(
                .badImageHeader, offset: cursor.start,
                expected: area == .plain ? "TLVs (0769)" : "the protected TLVs (0869) that the header requires",
                found: Hex.encode(collected.prefix(2)),
                hint: """
                    if the image is not signed, sign the binary: \
                    otaflash sign --as mcuboot APP.bin --key FILE --version V --header-size N
                    """)
        }
        guard total >= 4, area == .plain || total == header?.protectedTLVSize else {
            throw ImageError(
                .badImageHeader, offset: cursor.start + 2,
                expected: area == .plain
                    ? "a length of at least 4" : "the length \(header?.protectedTLVSize ?? 0) from the header",
                found: "\(total)")
        }
        begin(.area, length: UInt64(total) - 4)
    }

    /// Parses the TLVs of an area. The TLVs must fill the area completely.
    private static func parse(_ bytes: [UInt8], from start: UInt64) throws(ImageError) -> [MCUbootTLV] {
        var reader = ByteReader(bytes)
        var tlvs: [MCUbootTLV] = []
        while reader.remaining > 0 {
            do {
                let type = try reader.read(UInt16.self)
                let length = try reader.read(UInt16.self)
                tlvs.append(MCUbootTLV(type: type, value: Array(try reader.read(Int(length)))))
            } catch {
                throw ImageError(
                    .badImageHeader, offset: start + UInt64(error.offset),
                    expected: "\(error.expected) bytes of a TLV", found: "\(error.found) before the end of the area")
            }
        }
        return tlvs
    }

    /// Checks all SHA-256 digests of an image that is not encrypted. This parser cannot check an encrypted image, because the digest covers
    /// the body before the encryption.
    private mutating func checkDigests() throws(ImageError) {
        let digests = (tlvs[.plain] ?? []).filter { $0.type == MCUbootTLV.sha256 }
        guard !digests.isEmpty, let header, header.flags & MCUbootHeader.encryptionFlags == 0 else { return }
        let computed = hash.finish()
        for found in digests where found.value != computed.bytes {
            throw ImageError(
                .badImageDigest, offset: signedLength, expected: "the image's SHA-256, \(computed)",
                found: Hex.encode(found.value))
        }
        digest = computed
    }

    private static func notes(on image: MCUbootImage) -> [String] {
        var notes: [String] = []
        if image.isEncrypted {
            notes.append("the body is encrypted, so its digest was not checked")
        } else if image.digest == nil {
            notes.append("the image has no SHA-256, so its body was not checked")
        }
        if !image.isBootable { notes.append("the image is marked as not bootable") }
        for tlv in image.tlvs where tlv.isOtherDigest {
            notes.append("the \(tlv.name ?? "other") digest was not checked")
        }
        for tlv in image.tlvs where tlv.isOtherSignature {
            notes.append("the \(tlv.name ?? "other") signature was not checked")
        }
        return notes
    }
}

/// The bytes after an MCUboot image: the rest of its slot in the format of imgtool's `--pad`.
///
/// The rest consists of erased bytes and the bootloader's trailer. The trailer ends with a magic of 16 bytes. With imgtool's `--confirm`, a
/// flag before the magic marks the image as confirmed. The parser also accepts erased bytes without a trailer.
struct MCUbootTrailer {
    /// The magic for flash with a write unit of at most 8 bytes.
    private static let magic: [UInt8] = [
        0x77, 0xC2, 0x95, 0xF3, 0x60, 0xD2, 0xEF, 0x7F, 0x35, 0x52, 0x50, 0x0F, 0x2C, 0xB6, 0x79, 0x80,
    ]
    /// The last 14 bytes of the magic for flash with a larger write unit. The first two bytes of this magic contain the write unit.
    private static let magicOfLargerUnit: [UInt8] = [
        0x2D, 0xE1, 0x5D, 0x29, 0x41, 0x0B, 0x8D, 0x77, 0x67, 0x9C, 0x11, 0x0F, 0x1F, 0x8A,
    ]
    /// The largest number of bytes from the flag to the end of the trailer. The largest write unit of imgtool is 32 bytes. With this write
    /// unit, the flag and its padding have 32 bytes, and the magic and its padding have 32 bytes.
    private static let maximumLength = 64

    /// The offset of the first byte after the image.
    let start: UInt64
    /// The value of erased flash: 0xFF, or 0 on some chips. Nil until the parser receives the first byte after the image.
    private var erased: UInt8?
    /// The received bytes from the first byte that is not erased.
    private var trailer: [UInt8] = []
    /// The offset of the first byte of `trailer`.
    private var trailerStart: UInt64 = 0

    init(start: UInt64) {
        self.start = start
    }

    mutating func take(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(ImageError) {
        var rest = bytes
        if trailer.isEmpty {
            let erased = self.erased ?? (bytes.first == 0 ? 0 : 0xFF)
            self.erased = erased
            let count = bytes.countOfLeading(erased)
            trailerStart = offset + UInt64(count)
            rest = bytes.part(count, bytes.count - count)
        }
        trailer.append(contentsOf: rest.prefix(Self.maximumLength + 1 - trailer.count))
        guard trailer.count <= Self.maximumLength else { throw unexpected }
    }

    /// Returns the notes on the trailer for the user. `end` is the length of the file in bytes.
    ///
    /// - Throws: `trailing-image-bytes` if the trailer has an unknown format.
    func finish(at end: UInt64) throws(ImageError) -> [String] {
        guard end > start else { return [] }
        if trailer.isEmpty { return ["\(end - start) bytes of slot padding follow the image"] }
        let flag = trailer.dropLast(Self.magic.count)
        guard isMagic(trailer.suffix(Self.magic.count)),
            flag.isEmpty || flag.first == 1 && flag.dropFirst().allSatisfy({ $0 == erased })
        else { throw unexpected }
        let state = flag.isEmpty ? "" : ", which marks the image as confirmed"
        return ["\(end - start) bytes of slot padding and the bootloader's trailer follow the image" + state]
    }

    private func isMagic(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.elementsEqual(Self.magic) || bytes.count == 16 && bytes.dropFirst(2).elementsEqual(Self.magicOfLargerUnit)
    }

    /// Returns the 16 bytes of the magic. `unit` is the flash's write unit in bytes; pass 8 for a smaller unit.
    static func magic(unit: Int) -> [UInt8] {
        unit == 8 ? magic : [UInt8(unit & 0xFF), UInt8(unit >> 8)] + magicOfLargerUnit
    }

    private var unexpected: ImageError {
        ImageError(
            .trailingImageBytes, offset: trailerStart,
            expected: "the end of the image, slot padding, or the trailer of imgtool's --pad",
            found: Hex.encode(trailer.prefix(1)))
    }
}
