/// Reads one value that fills its bytes. Nesting is bounded, a count is believed only as far as there are bytes for it, and
/// nothing may follow.
package struct CBORDecoder {
    /// Images in slots in lists in a map are five.
    package static let deepest = 8
    /// An SMP packet tells its length in 16 bits.
    package static let longest = 65535

    private var tokens: CBORTokens

    package static func decode(_ bytes: some Collection<UInt8>) throws(CBORError) -> CBORValue {
        guard bytes.count <= longest else { throw CBORError(context: "\(bytes.count) bytes are no SMP packet's") }
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
        guard depth < Self.deepest else { throw CBORError(context: "it is nested more than \(Self.deepest) deep") }
        switch token {
        case .value(let value): return value
        case .text(let bytes): return .text(try Self.text(bytes))
        case .bytesInChunks: return .bytes(try chunks(ofText: false))
        case .textInChunks: return .text(try Self.text(try chunks(ofText: true)))
        case .array(let count): return .array(try array(count, depth: depth))
        case .map(let count): return .map(try map(count, depth: depth))
        case .tag: throw CBORError(context: "a tag before byte \(tokens.offset), which SMP has not")
        case .end: throw CBORError(context: "a break before byte \(tokens.offset), where nothing is open")
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
                throw CBORError(context: "a key before byte \(tokens.offset) that is no text")
            }
            guard entries.updateValue(try value(depth: depth + 1), forKey: key) == nil else {
                throw CBORError(context: "the key \(key) twice")
            }
        }
        return entries
    }

    private func check(_ count: UInt64?, bytesForEach size: UInt64) throws(CBORError) {
        if let count, count > UInt64(tokens.remaining) / size {
            throw CBORError(context: "\(count) items are announced, and \(tokens.remaining) bytes follow")
        }
    }

    /// Chunks of text are joined before they are looked at: a character may lie across two of them.
    private mutating func chunks(ofText isText: Bool) throws(CBORError) -> [UInt8] {
        var bytes: [UInt8] = []
        while true {
            switch try tokens.next() {
            case .value(.bytes(let chunk)) where !isText: bytes += chunk
            case .text(let chunk) where isText: bytes += chunk
            case .end: return bytes
            default: throw CBORError(context: "before byte \(tokens.offset) something that is no chunk of a string")
            }
        }
    }

    private static func text(_ bytes: [UInt8]) throws(CBORError) -> String {
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw CBORError(context: "text that is not UTF-8")
        }
        return text
    }
}
