import OTAFirmware
import OTASigning

/// The encoded form of a hostile release's image from an offset. The bytes are not LZMA2, because neither a session nor a hostile device
/// decodes them.
struct HostileStream {
    let encoded: EncodedImage
    /// The CRC-32 of each prefix of the stream.
    private let checksums: [UInt32]

    /// The bases of a push: one for each kind of choice.
    static let bases = (0..<3 as Range<UInt8>).map { number in
        BaseImage(id: Int(number), size: 400 + Int(number), digest: SHA256.digest(of: [number]), name: "base-\(number)")
    }

    init(of image: [UInt8], from offset: Int) {
        var encoded = EncodedImage(offset: offset, bytes: [], chunks: [])
        var checksums: [UInt32] = [0]
        var end = offset
        while end < image.count {
            // Chunks of different sizes: the small ones have fewer bytes than a Data value.
            let next = min(end + (encoded.chunks.count.isMultiple(of: 3) ? 900 : 60), image.count)
            for index in 0..<max(1, (next - end) / 8) {
                let byte = UInt8(truncatingIfNeeded: end &+ index &* 7)
                encoded.bytes.append(byte)
                checksums.append(CRC32.update(checksums[checksums.count - 1], [byte]))
            }
            end = next
            encoded.chunks.append(EncodedImage.Chunk(imageEnd: end, streamEnd: encoded.bytes.count))
        }
        (self.encoded, self.checksums) = (encoded, checksums)
    }

    var bytes: [UInt8] { encoded.bytes }

    /// Returns 0 if the stream has fewer bytes.
    func checksum(upTo offset: Int) -> UInt32 { checksums.indices.contains(offset) ? checksums[offset] : 0 }

    /// The end of the image bytes of the complete chunks.
    func imageEnd(at offset: Int) -> Int {
        encoded.chunks.last { $0.streamEnd <= offset }?.imageEnd ?? encoded.offset
    }

    /// The number of chunks that start in a range of the stream.
    func starts(in range: Range<Int>) -> Int {
        ([0] + encoded.chunks.dropLast().map(\.streamEnd)).count { range.contains($0) && $0 < bytes.count }
    }
}
