public import OTAFirmware

/// A record of a boot state in the flash: 512 bytes, little-endian. The record with the highest generation is the newest. The CRC-32
/// detects a record that is incomplete because of a power cut.
///
/// The table lists the offset of each field in bytes, its length in bytes, and its contents:
///
///      0  4  magic "VBR1"            12  140  image in slot 0
///      4  4  generation             152  140  image in slot 1
///      8  1  permanent slot         292  216  zero
///      9  1  trial                  508    4  CRC-32 of bytes 0 to 507
///     10  2  zero
///
/// Each image has these fields: present u8, manifest present u8, version length u8, version 63 bytes, zero u16, counter u32, size u32,
/// digest 32 bytes, manifest digest 32 bytes. All bytes are zero if the slot has no image.
struct BootRecord: Equatable {
    static let size = 512
    private static let magic: [UInt8] = Array("VBR1".utf8)
    private static let versionSpace = 63

    var generation: UInt32
    var state: BootState

    init(generation: UInt32, state: BootState) {
        self.generation = generation
        self.state = state
    }

    /// Parses a record. Returns nil if the bytes are not a complete record. Also returns nil if `other` is not nil and the record's
    /// generation is not greater than `other`.
    init?(_ bytes: UnsafeRawBufferPointer, newerThan other: UInt32? = nil) {
        guard bytes.count == Self.size, bytes.starts(with: Self.magic) else { return nil }
        let claimed = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: 4, as: UInt32.self))
        if let other, claimed <= other { return nil }
        let body = UnsafeRawBufferPointer(rebasing: bytes.prefix(Self.size - 4))
        let checksum = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: body.count, as: UInt32.self))
        guard CRC32.update(0, body) == checksum else { return nil }
        var reader = ByteReader(Array(body.dropFirst(Self.magic.count)))
        do {
            generation = try reader.read()
            let permanent = try reader.read(UInt8.self)
            guard permanent < 2, let trial = BootState.Trial(rawValue: try reader.read(UInt8.self)) else { return nil }
            _ = try reader.read(2)
            let images = [try Self.readImage(&reader), try Self.readImage(&reader)]
            state = BootState(permanent: Int(permanent), trial: trial, images: images)
        } catch {
            return nil
        }
    }

    var bytes: [UInt8] {
        var writer = ByteWriter(reservingCapacity: Self.size)
        writer.write(Self.magic)
        writer.write(generation)
        writer.write(UInt8(truncatingIfNeeded: state.permanent))
        writer.write(state.trial.rawValue)
        writer.writeZeros(2)
        for image in state.images { Self.write(image, &writer) }
        writer.writeZeros(Self.size - 4 - writer.bytes.count)
        writer.write(CRC32.checksum(of: writer.bytes))
        return writer.bytes
    }

    private static func readImage(_ reader: inout ByteReader) throws(ByteReader.Truncated) -> BootImage? {
        let isPresent = try reader.read(UInt8.self) == 1
        let hasManifest = try reader.read(UInt8.self) == 1
        let versionLength = Int(try reader.read(UInt8.self))
        let version = try reader.read(versionSpace).prefix(versionLength)
        _ = try reader.read(2)
        let counter: UInt32 = try reader.read()
        let size: UInt32 = try reader.read()
        let digest = SHA256Digest(bytes: try reader.read(32))
        let manifestDigest = SHA256Digest(bytes: try reader.read(32))
        guard isPresent, let digest else { return nil }
        return BootImage(
            version: String(decoding: version, as: UTF8.self), securityCounter: counter,
            manifestDigest: hasManifest ? manifestDigest : nil, size: Int(size), digest: digest)
    }

    private static func write(_ image: BootImage?, _ writer: inout ByteWriter) {
        guard let image else { return writer.writeZeros(140) }
        let version = image.version.utf8.prefix(versionSpace)
        writer.write(UInt8(1))
        writer.write(UInt8(image.manifestDigest == nil ? 0 : 1))
        writer.write(UInt8(version.count))
        writer.write(version)
        writer.writeZeros(versionSpace - version.count + 2)
        writer.write(image.securityCounter)
        writer.write(UInt32(clamping: image.size))
        writer.write(image.digest.bytes)
        writer.write(image.manifestDigest?.bytes ?? Array(repeating: 0, count: 32))
    }
}

/// The state that the virtual bootloader stores in the flash.
public struct BootState: Sendable, Equatable {
    public enum Trial: UInt8, Sendable {
        case none = 0
        /// The image is marked. The next boot runs the image on trial.
        case pending = 1
        /// The image on trial has booted once and is not confirmed. The next boot rolls back.
        case running = 2
    }
    /// The slot of the permanent image: 0 or 1.
    public var permanent: Int
    /// The trial of the image in the slot `other`.
    public var trial: Trial
    /// The images in slot 0 and slot 1. An element is nil until its slot contains the factory image or an image that was marked for boot.
    public var images: [BootImage?]

    /// The slot that does not contain the permanent image.
    public var other: Int { 1 - permanent }
}

/// The properties of an image in a slot, as stored in the boot record.
public struct BootImage: Sendable, Equatable {
    /// The version as SemVer text, at most 63 bytes.
    public var version: String
    public var securityCounter: UInt32
    /// The SHA-256 of the image's manifest. Nil for the factory image and for images received over SMP, because these images have no
    /// manifest.
    public var manifestDigest: SHA256Digest?
    /// The size in bytes.
    public var size: Int
    /// The SHA-256 of the image. The bootloader boots the image only if the bytes in the slot have this SHA-256.
    public var digest: SHA256Digest

    public init(
        version: String, securityCounter: UInt32, manifestDigest: SHA256Digest?, size: Int, digest: SHA256Digest
    ) {
        self.version = version
        self.securityCounter = securityCounter
        self.manifestDigest = manifestDigest
        self.size = size
        self.digest = digest
    }
}
