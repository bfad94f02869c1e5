import CLzma
public import OTAFirmware

/// Encodes images for devices that decode LZMA2 with their flash as the dictionary.
public enum ImageEncoder {
    /// Encodes the bytes of an image from `offset` to the image's end.
    ///
    /// As a check, the function decodes the stream with liblzma and compares the result with the image. With the same version of liblzma,
    /// the same arguments always give the same stream.
    ///
    /// An image of 1 MiB with a base of 1 MiB takes about half a second. An image of 16 MiB without a base takes at most 15 seconds. If the
    /// current task is cancelled, the function stops and throws `EncodingFailure.notDecoded`. It cannot stop while liblzma reads the base,
    /// which can take seconds for a base of several MiB.
    ///
    /// - Parameters:
    ///   - image: the complete image.
    ///   - offset: the number of image bytes that the device already has.
    ///   - base: the image that the device runs. If `base` is empty, the image is compressed without a base.
    /// - Throws: `tooLarge` if the image or the base has more than `EncodedImage.maximumSize` bytes; `notDecoded` for all other failures.
    public static func encode(
        _ image: [UInt8], from offset: Int, base: [UInt8]
    ) throws(EncodingFailure) -> EncodedImage {
        guard image.count <= EncodedImage.maximumSize, base.count <= EncodedImage.maximumSize else { throw .tooLarge }
        guard (0...image.count).contains(offset) else {
            throw .notDecoded(context: "offset \(offset) is after the end of the image (\(image.count) bytes)")
        }
        let rest = image[offset...]
        guard !rest.isEmpty else { return EncodedImage(offset: offset, bytes: [], chunks: []) }
        // liblzma cannot be stopped while it reads the dictionary.
        try checkCancellation()
        let options = LzmaOptions(dictionary: base + image[..<offset], contentSize: base.count + image.count)
        let bytes = try LzmaStream(encoderWith: options).encode(rest)
        try checkCancellation()
        guard try LzmaStream(decoderWith: options).decode(bytes, size: rest.count).elementsEqual(rest) else {
            throw .notDecoded(context: "liblzma decodes the stream to other bytes")
        }
        return EncodedImage(offset: offset, bytes: bytes, chunks: try chunks(of: bytes, imageStart: offset))
    }

    /// Throws an error if the current task is cancelled.
    static func checkCancellation() throws(EncodingFailure) {
        guard !Task.isCancelled else { throw .notDecoded(context: "the push has ended") }
    }

    /// Parses the headers of the chunks in a stream. The format is described in the file lzma2_encoder.c of XZ Utils.
    private static func chunks(
        of stream: [UInt8], imageStart: Int
    ) throws(EncodingFailure) -> [EncodedImage.Chunk] {
        var chunks: [EncodedImage.Chunk] = []
        var end = EncodedImage.Chunk(imageEnd: imageStart, streamEnd: 0)
        while end.streamEnd < stream.count {
            let header = stream[end.streamEnd...].prefix(6).map(Int.init)
            guard header.count == 6 || header.count > 3 && header[0] < 0x80 else { throw invalid(end) }
            switch header[0] {
            case 1, 2:
                let size = header[1] << 8 + header[2] + 1
                end.imageEnd += size
                end.streamEnd += 3 + size
            case 0x80...:
                let size = (header[0] & 0x1F) << 16 + header[1] << 8 + header[2] + 1
                guard size <= EncodedImage.maximumChunk else { throw invalid(end) }
                // If the first byte of the header is 0xC0 or more, a byte with the properties (lc, lp and pb) follows the two sizes.
                end.streamEnd += (header[0] >= 0xC0 ? 6 : 5) + header[3] << 8 + header[4] + 1
                end.imageEnd += size
            default: throw invalid(end)
            }
            chunks.append(end)
        }
        guard end.streamEnd == stream.count else { throw invalid(end) }
        return chunks
    }

    private static func invalid(_ chunk: EncodedImage.Chunk) -> EncodingFailure {
        .notDecoded(context: "liblzma wrote a chunk that devices do not accept, at byte \(chunk.streamEnd)")
    }
}
