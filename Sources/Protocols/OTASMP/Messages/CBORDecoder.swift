internal import CCBOR

/// Decodes one CBOR value of an SMP packet.
///
/// A device may be hostile. So the decoder limits the nesting depth. It also refuses an array or a map if the announced number of items
/// is too high for the number of bytes that follow.
package struct CBORDecoder {
    /// The maximum nesting depth. SMP needs five levels: the answer's map, the image list, an image's map, its slot list, a slot's map.
    package static let deepest = 8
    /// The maximum length of the input in bytes. The length field in the header of an SMP packet has 16 bits, so this is the maximum
    /// length of a body.
    package static let longest = 65535

    private var tokens: CBORTokens

    /// Decodes bytes that are exactly one CBOR value.
    ///
    /// - Throws: ``CBORError`` if the bytes are malformed, are too long, or continue after the value.
    package static func decode(_ bytes: some Collection<UInt8>) throws(CBORError) -> CBORValue {
        guard bytes.count <= longest else {
            throw CBORError(context: "\(bytes.count) bytes are too long for an SMP packet (at most \(longest))")
        }
        var decoder = CBORDecoder(tokens: CBORTokens(bytes))
        let value = try decoder.value(depth: 0)
        guard decoder.tokens.remaining == 0 else {
            throw CBORError(context: "\(decoder.tokens.remaining) bytes follow the value")
        }
        return value
    }

    private mutating func value(depth: Int) throws(CBORError) -> CBORValue {
        try value(of: try tokens.next(), depth: depth)
    }

    private mutating func value(of token: CBORToken, depth: Int) throws(CBORError) -> CBORValue {
        guard depth < Self.deepest else {
            throw CBORError(context: "it is nested more than \(Self.deepest) levels deep")
        }
        switch token {
        case .value(let value): return value
        case .text(let bytes): return .text(try Self.text(bytes))
        case .bytesInChunks: return .bytes(try chunks(ofText: false))
        case .textInChunks: return .text(try Self.text(try chunks(ofText: true)))
        case .array(let count): return .array(try array(count, depth: depth))
        case .map(let count): return .map(try map(count, depth: depth))
        case .tag: throw CBORError(context: "unsupported tag before byte \(tokens.offset)")
        case .end: throw CBORError(context: "unexpected break before byte \(tokens.offset)")
        }
    }

    private mutating func array(_ count: UInt64?, depth: Int) throws(CBORError) -> [CBORValue] {
        try check(count, bytesForEach: 1)
        var items: [CBORValue] = []
        while count.map({ UInt64(items.count) < $0 }) ?? true {
            let token = try tokens.next()
            if count == nil, case .end = token { break }
            items.append(try value(of: token, depth: depth + 1))
        }
        return items
    }

    private mutating func map(_ count: UInt64?, depth: Int) throws(CBORError) -> [String: CBORValue] {
        try check(count, bytesForEach: 2)
        var entries: [String: CBORValue] = [:]
        while count.map({ UInt64(entries.count) < $0 }) ?? true {
            let token = try tokens.next()
            if count == nil, case .end = token { break }
            guard case .text(let key) = try value(of: token, depth: depth + 1) else {
                throw CBORError(context: "the map key before byte \(tokens.offset) is not a text")
            }
            guard entries.updateValue(try value(depth: depth + 1), forKey: key) == nil else {
                throw CBORError(context: "duplicate key \(key)")
            }
        }
        return entries
    }

    private func check(_ count: UInt64?, bytesForEach size: UInt64) throws(CBORError) {
        if let count, count > UInt64(tokens.remaining) / size {
            throw CBORError(context: "\(count) items are announced, but only \(tokens.remaining) bytes follow")
        }
    }

    /// Reads a string that consists of several parts, and joins the parts.
    ///
    /// The caller validates the joined text as UTF-8, because the bytes of one character may be in two parts.
    private mutating func chunks(ofText isText: Bool) throws(CBORError) -> [UInt8] {
        var bytes: [UInt8] = []
        while true {
            switch try tokens.next() {
            case .value(.bytes(let chunk)) where !isText: bytes += chunk
            case .text(let chunk) where isText: bytes += chunk
            case .end: return bytes
            default: throw CBORError(context: "the item before byte \(tokens.offset) is not a chunk of a string")
            }
        }
    }

    private static func text(_ bytes: [UInt8]) throws(CBORError) -> String {
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw CBORError(context: "a text is not valid UTF-8")
        }
        return text
    }
}

/// A token from libcbor's streaming decoder.
private enum CBORToken {
    /// A complete value that is not a text, an array or a map.
    case value(CBORValue)
    /// A complete text. The bytes are not yet validated as UTF-8.
    case text([UInt8])
    /// The start of a string in several parts, which RFC 8949 calls chunks. The token `end` ends the string.
    case bytesInChunks, textInChunks
    /// The start of an array with `count` items. If `count` is nil, the token `end` ends the array.
    case array(count: UInt64?)
    /// The start of a map with `count` pairs of a key and a value. If `count` is nil, the token `end` ends the map.
    case map(count: UInt64?)
    /// A tag, which SMP does not use.
    case tag
    /// The break code. It ends a string, an array or a map that was announced without a length.
    case end
}

/// Splits bytes into tokens with libcbor's streaming decoder. This decoder allocates no memory, does not recurse, and does not read past
/// the end of the bytes.
private struct CBORTokens {
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
                    ? "it ends inside an item, after \(bytes.count) bytes" : "byte \(offset) does not start a CBOR item"
            )
        }
        offset += result.read
        return token
    }

    /// The callbacks that libcbor calls for each token. Every member is set, because libcbor does not check the members for null.
    ///
    /// The conversions with `truncatingIfNeeded` accept the count in all versions of libcbor. Before 0.10, libcbor declares a count as
    /// `size_t`. Swift imports this type as `Int`, so a count of 2⁶⁴ − 1 arrives as −1. Since 0.10, a count is a `uint64_t`.
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
            byte_string: { note($0, .value(.bytes(copy($1, Int(truncatingIfNeeded: $2))))) },
            string: { note($0, .text(copy($1, Int(truncatingIfNeeded: $2)))) },
            string_start: { note($0, .textInChunks) },
            indef_array_start: { note($0, .array(count: nil)) },
            array_start: { note($0, .array(count: UInt64(truncatingIfNeeded: $1))) },
            indef_map_start: { note($0, .map(count: nil)) },
            map_start: { note($0, .map(count: UInt64(truncatingIfNeeded: $1))) },
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
