package import OTAFirmware

/// Converts between offsets in an image and offsets in its encoded form, which is a stream of LZMA2 chunks.
///
/// The position in the answer to BEGIN is an offset in the image. All later positions of the transfer are offsets in the stream.
package struct StreamPositions: Equatable, Sendable {
    /// The offset in the image at which the stream starts.
    let offset: Int
    private let chunks: [EncodedImage.Chunk]

    /// Creates the positions of a stream.
    ///
    /// - Returns: nil in two cases. First: the chunks, in order, do not cover exactly the bytes of the stream and the bytes of the image
    ///   from `encoded.offset` to the end. Second: a chunk has more decoded bytes than `longestChunk`.
    /// - Parameter imageSize: the size of the whole image in bytes.
    package init?(_ encoded: EncodedImage, imageSize: Int) {
        var last = EncodedImage.Chunk(imageEnd: encoded.offset, streamEnd: 0)
        for chunk in encoded.chunks {
            guard 1...Self.longestChunk ~= chunk.imageEnd - last.imageEnd, chunk.streamEnd > last.streamEnd else {
                return nil
            }
            last = chunk
        }
        guard last.imageEnd == imageSize, last.streamEnd == encoded.bytes.count else { return nil }
        offset = encoded.offset
        chunks = encoded.chunks
    }

    /// The maximum number of image bytes in a chunk: 64 KiB, the maximum that LZMA2 allows in an uncompressed chunk.
    private static let longestChunk = 65536

    /// The number of chunks that end at or before an offset in the stream.
    private func completeChunks(at stream: Int) -> Int { chunks.partitionPoint { $0.streamEnd <= stream } }

    /// Returns the offset in the image at the end of the last chunk that is complete at an offset in the stream. If no chunk is
    /// complete, returns the start of the stream in the image.
    ///
    /// A device that has accepted the stream up to this offset has certainly decoded these bytes of the image. It often has decoded more
    /// bytes.
    package func completeImage(at stream: Int) -> Int {
        let complete = completeChunks(at: stream)
        return complete == 0 ? offset : chunks[complete - 1].imageEnd
    }

    /// Estimates the offset in the image for an offset in the stream. At the end of a chunk, the offset is exact. Inside a chunk, the
    /// estimate is proportional.
    package func image(at stream: Int) -> Int {
        let complete = completeChunks(at: stream)
        let start = start(of: complete)
        guard complete < chunks.count else { return start.imageEnd }
        let (imageBytes, streamBytes) = sizes(of: complete)
        return start.imageEnd + imageBytes * (stream - start.streamEnd) / streamBytes
    }

    /// Estimates the offset in the stream for an offset in the image. At the end of a chunk, the offset is exact. Inside a chunk, the
    /// estimate is proportional, and rounded up.
    package func stream(at image: Int) -> Int {
        let complete = chunks.partitionPoint { $0.imageEnd <= image }
        let start = start(of: complete)
        guard complete < chunks.count, image > start.imageEnd else { return start.streamEnd }
        let (imageBytes, streamBytes) = sizes(of: complete)
        return start.streamEnd + (streamBytes * (image - start.imageEnd) + imageBytes - 1) / imageBytes
    }

    /// The number of chunks that start in a range of the stream.
    package func starts(in range: Range<Int>) -> Int {
        firstChunk(startingAtOrAfter: range.upperBound) - firstChunk(startingAtOrAfter: range.lowerBound)
    }

    /// The first offset in the stream, at or after `stream`, at which a chunk starts; nil if no chunk starts at or after `stream`.
    package func start(atOrAfter stream: Int) -> Int? {
        let index = firstChunk(startingAtOrAfter: stream)
        return index < chunks.count ? start(of: index).streamEnd : nil
    }

    private func firstChunk(startingAtOrAfter stream: Int) -> Int {
        stream <= 0 ? 0 : min(chunks.partitionPoint { $0.streamEnd < stream } + 1, chunks.count)
    }

    /// The start of a chunk, which is the end of the previous chunk.
    private func start(of index: Int) -> EncodedImage.Chunk {
        index == 0 ? EncodedImage.Chunk(imageEnd: offset, streamEnd: 0) : chunks[index - 1]
    }

    private func sizes(of index: Int) -> (image: Int, stream: Int) {
        let (start, end) = (start(of: index), chunks[index])
        return (end.imageEnd - start.imageEnd, end.streamEnd - start.streamEnd)
    }
}

extension Array {
    /// Returns the index of the first element that does not match; `count` if all elements match. The matching elements must come first.
    fileprivate func partitionPoint(_ matches: (Element) -> Bool) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if matches(self[middle]) { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
