internal import CZlib

/// DEFLATE (RFC 1951), by zlib.
enum Inflater {
    /// Exactly `count` bytes of exactly this stream; nil where it has more, fewer, or is none. No more than `count` bytes
    /// are ever written.
    static func inflate(_ packed: ArraySlice<UInt8>, to count: Int) -> [UInt8]? {
        guard let available = UInt32(exactly: packed.count), let wanted = UInt32(exactly: count) else { return nil }
        var stream = z_stream()
        // Negative: without zlib's own header.
        let begun = inflateInit2_(&stream, -MAX_WBITS, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        guard begun == Z_OK else { return nil }
        defer { inflateEnd(&stream) }
        var isWhole = false
        // One byte at least, as zlib asks for a place to write to.
        let bytes = [UInt8](unsafeUninitializedCapacity: max(count, 1)) { output, initialized in
            isWhole = packed.withUnsafeBufferPointer { input in
                // zlib does not write to its input.
                stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.avail_in = available
                stream.next_out = output.baseAddress
                stream.avail_out = wanted
                return CZlib.inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_in == 0 && stream.avail_out == 0
            }
            initialized = isWhole ? count : 0
        }
        return isWhole ? bytes : nil
    }
}
