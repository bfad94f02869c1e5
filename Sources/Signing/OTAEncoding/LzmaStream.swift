import CLzma
import OTAFirmware

/// The options of an LZMA2 stream. The encoder and the decoder of a stream need the same options.
struct LzmaOptions {
    /// The preset dictionary: the base, followed by the image's bytes before the first encoded byte.
    let dictionary: [UInt8]
    /// The dictionary size for liblzma: the largest distance of a match, in bytes.
    private let size: UInt32
    private let finder: lzma_match_finder

    /// - Parameter contentSize: the size of the base and of the complete image together, in bytes.
    init(dictionary: [UInt8], contentSize: Int) {
        self.dictionary = dictionary
        size = UInt32(max(4096, contentSize))
        // Binary trees (BT4) find better matches than hash chains (HC4). However, binary trees need more time, and 12 bytes of memory per
        // byte of the dictionary. Therefore large contents use hash chains.
        finder = contentSize <= 8 << 20 ? LZMA_MF_BT4 : LZMA_MF_HC4
    }

    /// Calls `body` with the list of filters for liblzma. The list is valid only during the call.
    func withFilters(_ body: (UnsafePointer<lzma_filter>) -> lzma_ret) -> lzma_ret {
        dictionary.withUnsafeBufferPointer { dictionary in
            var options = lzma_options_lzma()
            options.dict_size = size
            options.preset_dict = dictionary.baseAddress
            options.preset_dict_size = UInt32(dictionary.count)
            (options.lc, options.lp, options.pb) = (0, 0, 0)
            options.mode = LZMA_MODE_NORMAL
            options.nice_len = 64
            options.mf = finder
            return withUnsafeMutablePointer(to: &options) { options in
                // The ids are LZMA_FILTER_LZMA2 and LZMA_VLI_UNKNOWN. Swift does not import these macros.
                var filters = (lzma_filter(id: 0x21, options: options), lzma_filter(id: .max, options: nil))
                return withUnsafePointer(to: &filters) { filters in
                    filters.withMemoryRebound(to: lzma_filter.self, capacity: 2, body)
                }
            }
        }
    }
}

/// A raw encoder or decoder of liblzma.
final class LzmaStream {
    private var stream = lzma_stream()

    init(encoderWith options: LzmaOptions) throws(EncodingFailure) {
        try Self.check(options.withFilters { lzma_raw_encoder(&stream, $0) })
    }

    init(decoderWith options: LzmaOptions) throws(EncodingFailure) {
        try Self.check(options.withFilters { lzma_raw_decoder(&stream, $0) })
    }

    deinit { lzma_end(&stream) }

    /// Encodes all bytes. Each chunk of the stream contains at most `EncodedImage.maximumChunk` decoded bytes. The stream does not contain
    /// the end mark.
    func encode(_ bytes: ArraySlice<UInt8>) throws(EncodingFailure) -> [UInt8] {
        var encoded: [UInt8] = []
        // An encoded chunk is at most a few bytes longer than its decoded bytes, so it fits into this buffer.
        var output = [UInt8](repeating: 0, count: EncodedImage.maximumChunk + 64)
        var start = bytes.startIndex
        while start < bytes.endIndex {
            try ImageEncoder.checkCancellation()
            let end = min(start + EncodedImage.maximumChunk, bytes.endIndex)
            var input = bytes[start..<end]
            var result = LZMA_OK
            while result == LZMA_OK {
                let step = code(input, into: &output, LZMA_SYNC_FLUSH)
                input = input.dropFirst(step.taken)
                encoded += output[..<step.made]
                result = step.result
            }
            guard result == LZMA_STREAM_END else { throw Self.failure(result) }
            start = end
        }
        return encoded
    }

    /// Decodes a complete stream without the end mark.
    ///
    /// - Parameter size: the number of decoded bytes.
    func decode(_ encoded: [UInt8], size: Int) throws(EncodingFailure) -> [UInt8] {
        // The input gets an end mark (a zero byte). liblzma then returns an error if the stream ends inside a chunk. The buffer has one
        // byte more than `size`. Therefore a stream that decodes to more bytes gives a result that is longer than `size`, or an error.
        var output = [UInt8](repeating: 0, count: size + 1)
        let input = encoded + [0]
        let step = code(input[...], into: &output, LZMA_FINISH)
        guard step.result == LZMA_STREAM_END, step.taken == input.count else { throw Self.failure(step.result) }
        output.removeLast(output.count - step.made)
        return output
    }

    private func code(
        _ input: ArraySlice<UInt8>, into output: inout [UInt8], _ action: lzma_action
    ) -> (taken: Int, made: Int, result: lzma_ret) {
        input.withUnsafeBufferPointer { input in
            output.withUnsafeMutableBufferPointer { output in
                (stream.next_in, stream.avail_in) = (input.baseAddress, input.count)
                (stream.next_out, stream.avail_out) = (output.baseAddress, output.count)
                let result = lzma_code(&stream, action)
                return (input.count - stream.avail_in, output.count - stream.avail_out, result)
            }
        }
    }

    private static func check(_ result: lzma_ret) throws(EncodingFailure) {
        guard result == LZMA_OK else { throw failure(result) }
    }

    private static func failure(_ result: lzma_ret) -> EncodingFailure {
        .notDecoded(
            context: result == LZMA_MEM_ERROR ? "no memory for liblzma" : "liblzma reports error \(result.rawValue)")
    }
}
