/// Parses an ESP-IDF application image.
///
/// The file has these parts in this order: a header, segments, a footer, an optional SHA-256 and an optional trailer. The footer is
/// padding, and its last byte is the checksum. `EspressifTrailer` describes the trailer.
struct EspressifParser: SectionParser {
    private enum Section {
        case header, segmentHeader, segmentData, footer, digest, trailer
    }

    var cursor = SectionCursor(length: EspressifHeader.length)
    private var section = Section.header
    /// The received bytes of the current section. The parser does not store segment data, except for the application description at the
    /// start of the first segment.
    private var collected: [UInt8] = []
    private var hash: any IncrementalHash
    private var checksum: UInt8 = 0xEF

    private var header: EspressifHeader?
    private var segments: [EspressifImage.Segment] = []
    private var application: EspressifApplication?
    private var digest: SHA256Digest?
    private var trailer: EspressifTrailer?

    init(makeHash: () -> any IncrementalHash) {
        hash = makeHash()
    }

    mutating func take(_ bytes: UnsafeRawBufferPointer) throws(ImageError) {
        switch section {
        case .header, .segmentHeader, .footer:
            collected.append(contentsOf: bytes)
            hash.update(bytes)
        case .segmentData:
            if segments.count == 1 {
                let missing = EspressifApplication.encodedLength - collected.count
                collected.append(contentsOf: bytes.prefix(missing))
            }
            checksum ^= bytes.exclusiveOr()
            hash.update(bytes)
        case .digest:
            collected.append(contentsOf: bytes)
        case .trailer:
            try trailer?.take(bytes, at: cursor.offset)
        }
    }

    mutating func endSection() throws(ImageError) {
        switch section {
        case .header:
            header = try EspressifHeader(collected)
            begin(.segmentHeader, length: 8)
        case .segmentHeader:
            try beginSegment()
        case .segmentData:
            if segments.count == 1 { application = EspressifApplication(collected) }
            if segments.count < header?.segmentCount ?? 0 {
                begin(.segmentHeader, length: 8)
            } else {
                // The footer ends at a multiple of 16 bytes.
                begin(.footer, length: 16 - cursor.offset % 16)
            }
        case .footer:
            try checkChecksum()
            if header?.hasDigest == true {
                begin(.digest, length: 32)
            } else {
                beginTrailer()
            }
        case .digest:
            try checkDigest()
            beginTrailer()
        case .trailer:
            break
        }
    }

    mutating func finish() throws(ImageError) -> FirmwareDescription {
        guard section == .trailer, let header, let trailer else { throw cursor.truncation }
        var notes = try trailer.finish(at: cursor.offset)
        let image = EspressifImage(
            chipID: header.chipID, flashSize: header.flashSize, entryPoint: header.entryPoint,
            chipRevisions: header.chipRevisions, segments: segments, digest: digest, application: application,
            length: trailer.start)
        if image.chip == nil { notes.append("the chip id \(image.chipID) is unknown to this version of otaflash") }
        if application == nil {
            notes.append("the image has no application description, and therefore no version and no project name")
        }
        if digest == nil { notes.append("the image has no SHA-256, so only its 8-bit checksum was checked") }
        return FirmwareDescription(size: cursor.offset, details: .espressif(image), notes: notes)
    }

    private mutating func begin(_ next: Section, length: UInt64) {
        section = next
        collected = []
        cursor.beginSection(length: length)
    }

    private mutating func beginSegment() throws(ImageError) {
        var reader = ByteReader(collected)
        let segment: EspressifImage.Segment
        do {
            segment = EspressifImage.Segment(
                loadAddress: try reader.read(), length: try reader.read(), offset: cursor.offset)
        } catch {
            throw ImageError(error, from: cursor.start)
        }
        // The bootloader also refuses a length that is not a multiple of 4 (esp_image_format.c, verify_segment_header).
        guard segment.length % 4 == 0 else {
            throw ImageError(
                .badImageHeader, offset: cursor.start + 4, expected: "a segment length divisible by 4",
                found: "\(segment.length)")
        }
        segments.append(segment)
        begin(.segmentData, length: UInt64(segment.length))
    }

    private mutating func beginTrailer() {
        begin(.trailer, length: .max)
        trailer = EspressifTrailer(start: cursor.offset)
    }

    private func checkChecksum() throws(ImageError) {
        guard collected.last == checksum else {
            throw ImageError(
                .badImageDigest, offset: cursor.offset - 1,
                expected: "the checksum of the segments, \(Hex.encode([checksum]))",
                found: Hex.encode(collected.suffix(1)))
        }
    }

    private mutating func checkDigest() throws(ImageError) {
        let computed = hash.finish()
        guard collected == computed.bytes else {
            throw ImageError(
                .badImageDigest, offset: cursor.start, expected: "the image's SHA-256, \(computed)",
                found: Hex.encode(collected))
        }
        digest = computed
    }
}

/// The bytes after an ESP-IDF image. These are padding bytes (0xFF), followed by signature sectors of Secure Boot v2. The padding, the
/// sectors, or both can be absent.
///
/// A signature sector has 4096 bytes. Its offset is a multiple of 4096, and its first byte is 0xE7. The parser does not verify the
/// signatures.
private struct EspressifTrailer {
    private static let sectorLength: UInt64 = 4096
    private static let sectorMagic: UInt8 = 0xE7

    /// The offset of the first byte after the image.
    let start: UInt64
    /// The offset of the first signature sector; nil until the parser finds one.
    private var firstSector: UInt64?
    /// The offset of the first byte after the last signature sector; 0 until the parser finds a signature sector.
    private var sectorEnd: UInt64 = 0

    init(start: UInt64) {
        self.start = start
    }

    mutating func take(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(ImageError) {
        var index = 0
        while index < bytes.count {
            let position = offset + UInt64(index)
            if position < sectorEnd {
                index += Int(min(UInt64(bytes.count - index), sectorEnd - position))
            } else if bytes[index] == Self.sectorMagic, position % Self.sectorLength == 0 {
                firstSector = firstSector ?? position
                sectorEnd = position + Self.sectorLength
            } else if bytes[index] == 0xFF, firstSector == nil {
                index += bytes.part(index, bytes.count - index).countOfLeading(0xFF)
            } else {
                throw ImageError(
                    .trailingImageBytes, offset: position,
                    expected: "the end of the image, padding (ff), or a signature sector (e7) at a multiple of 4096",
                    found: Hex.encode([bytes[index]]),
                    hint: "give only the application image, without bootloader and partition table")
            }
        }
    }

    /// Returns the notes on the trailer for the user. `end` is the length of the file in bytes.
    ///
    /// - Throws: `truncated-image` if the last signature sector is incomplete.
    func finish(at end: UInt64) throws(ImageError) -> [String] {
        guard let firstSector else { return end > start ? ["\(end - start) bytes of padding follow the image"] : [] }
        guard end >= sectorEnd else {
            throw ImageError(
                .truncatedImage, offset: sectorEnd - Self.sectorLength, expected: "a signature sector of 4096 bytes",
                found: "\(end + Self.sectorLength - sectorEnd)")
        }
        return ["the Secure Boot v2 signature at offset \(firstSector) was not checked; the device checks it"]
    }
}
