internal import CCBOR

/// What libcbor's streaming decoder finds at one place: a whole scalar, or the head of something longer.
enum CBORToken {
    case value(CBORValue)
    /// A definite text, not yet looked at: its bytes need not be UTF-8.
    case text([UInt8])
    /// Strings in chunks, up to a break.
    case bytesInChunks, textInChunks
    /// Nil: up to a break.
    case array(count: UInt64?)
    case map(count: UInt64?)
    case tag
    case end
}

/// The tokens of some bytes, one behind the other. libcbor neither allocates nor recurses for them, and reads no byte that
/// is not there.
struct CBORTokens {
    private let bytes: [UInt8]
    private(set) var offset = 0

    init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

    var remaining: Int { bytes.count - offset }

    mutating func next() throws(CBORError) -> CBORToken {
        var token: CBORToken?
        let result = bytes.withUnsafeBufferPointer { buffer in
            withUnsafePointer(to: Self.callbacks) { callbacks in
                withUnsafeMutablePointer(to: &token) { sink in
                    cbor_stream_decode(
                        buffer.baseAddress?.advanced(by: offset), buffer.count - offset, callbacks, sink)
                }
            }
        }
        guard result.status == CBOR_DECODER_FINISHED, let token, result.read > 0 else {
            throw CBORError(
                context: result.status == CBOR_DECODER_NEDATA
                    ? "it ends in the middle, after \(bytes.count) bytes" : "byte \(offset) begins nothing that is CBOR"
            )
        }
        offset += result.read
        return token
    }

    /// Counts are the device's word, and size_t is an Int here: 2⁶⁴ − 1 items are −1.
    ///
    /// Each of them: a member without a function would be called all the same.
    private static var callbacks: cbor_callbacks {
        cbor_callbacks(
            uint8: { note($0, .value(.unsigned(UInt64($1)))) },
            uint16: { note($0, .value(.unsigned(UInt64($1)))) },
            uint32: { note($0, .value(.unsigned(UInt64($1)))) },
            uint64: { note($0, .value(.unsigned($1))) },
            negint64: { note($0, .value(.negative($1))) },
            negint32: { note($0, .value(.negative(UInt64($1)))) },
            negint16: { note($0, .value(.negative(UInt64($1)))) },
            negint8: { note($0, .value(.negative(UInt64($1)))) },
            byte_string_start: { note($0, .bytesInChunks) },
            byte_string: { note($0, .value(.bytes(copy($1, $2)))) },
            string: { note($0, .text(copy($1, $2))) },
            string_start: { note($0, .textInChunks) },
            indef_array_start: { note($0, .array(count: nil)) },
            array_start: { note($0, .array(count: UInt64(UInt(bitPattern: $1)))) },
            indef_map_start: { note($0, .map(count: nil)) },
            map_start: { note($0, .map(count: UInt64(UInt(bitPattern: $1)))) },
            tag: { sink, _ in note(sink, .tag) },
            float2: { note($0, .value(.float(Double($1)))) },
            float4: { note($0, .value(.float(Double($1)))) },
            float8: { note($0, .value(.float($1))) },
            undefined: { note($0, .value(.null)) },
            null: { note($0, .value(.null)) },
            boolean: { note($0, .value(.bool($1))) },
            indef_break: { note($0, .end) })
    }
}

private func note(_ sink: UnsafeMutableRawPointer?, _ token: CBORToken) {
    sink?.assumingMemoryBound(to: CBORToken?.self).pointee = token
}

private func copy(_ start: UnsafePointer<UInt8>?, _ count: Int) -> [UInt8] {
    Array(UnsafeBufferPointer(start: start, count: count))
}
