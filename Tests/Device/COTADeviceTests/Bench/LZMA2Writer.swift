/// Writes LZMA2 chunks symbol by symbol (lc = lp = pb = 0), so that a test can choose each symbol, also symbols that no encoder produces.
///
/// The range encoder and the order of the bits follow the LZMA specification (lzma-specification.txt of the LZMA SDK).
/// `LZMA2WriterTests` compares it with a stream that liblzma decodes.
struct LZMA2Writer {
    enum Symbol {
        /// `expected` is the byte that would continue the last match. It counts only directly after a match.
        case literal(UInt8, expected: UInt8 = 0)
        /// A match. Distance 1 is the last byte of the dictionary, 1 << 32 is LZMA's end mark.
        case match(distance: Int, length: Int)
        /// A match with one of the last four distances.
        case repeated(Int, length: Int)
        /// One byte with the last distance.
        case short
    }

    private static let half: UInt16 = 1024
    private var probabilities = [UInt16](repeating: half, count: 1775)
    private var state = 0
    private var low: UInt64 = 0
    private var range = UInt32.max
    private var cache: UInt8 = 0
    private var pending = 1
    private var output: [UInt8] = []

    /// Returns the encoded bytes of an LZMA chunk, without its header. Without `resetting`, the state of the last chunk continues.
    mutating func encode(_ symbols: [Symbol], resetting: Bool = true) -> [UInt8] {
        if resetting {
            probabilities = [UInt16](repeating: Self.half, count: 1775)
            state = 0
        }
        (low, range, cache, pending, output) = (0, UInt32.max, 0, 1, [])
        for symbol in symbols { put(symbol) }
        for _ in 0..<5 { shift() }
        return output
    }

    /// Returns an LZMA chunk: the header, and the encoded bytes. `plain` is the number of plain bytes in the header.
    static func chunk(_ encoded: [UInt8], plain: Int, control: UInt8 = 0xC0) -> [UInt8] {
        let size = encoded.count - 1
        return [control | UInt8((plain - 1) >> 16)] + big(plain - 1) + big(size)
            + (control >= 0xC0 ? [0] : []) + encoded
    }

    /// Returns a copied chunk, which contains the plain bytes.
    static func copied(_ bytes: [UInt8], control: UInt8 = 2) -> [UInt8] {
        [control] + big(bytes.count - 1) + bytes
    }

    private static func big(_ number: Int) -> [UInt8] { [UInt8(number >> 8 & 255), UInt8(number & 255)] }

    private mutating func shift() {
        if low < 0xFF00_0000 || low > 0xFFFF_FFFF {
            let carry = UInt8(truncatingIfNeeded: low >> 32)
            var byte = cache
            while pending > 0 {
                output.append(byte &+ carry)
                byte = 0xFF
                pending -= 1
            }
            cache = UInt8(truncatingIfNeeded: low >> 24)
        }
        pending += 1
        low = low << 8 & 0xFFFF_FFFF
    }

    private mutating func put(bit: Int, at place: Int) {
        let probability = probabilities[place]
        let bound = (range >> 11) * UInt32(probability)
        if bit == 0 {
            range = bound
            probabilities[place] += (2048 - probability) >> 5
        } else {
            low += UInt64(bound)
            range -= bound
            probabilities[place] -= probability >> 5
        }
        normalize()
    }

    private mutating func normalize() {
        while range < 1 << 24 {
            range <<= 8
            shift()
        }
    }

    private mutating func put(direct value: Int, bits: Int) {
        for bit in (0..<bits).reversed() {
            range >>= 1
            if value >> bit & 1 == 1 { low += UInt64(range) }
            normalize()
        }
    }

    private mutating func put(tree value: Int, bits: Int, at place: Int) {
        var node = 1
        for bit in (0..<bits).reversed() {
            put(bit: value >> bit & 1, at: place + node)
            node = node << 1 | value >> bit & 1
        }
    }

    private mutating func put(reverse value: Int, bits: Int, at place: Int) {
        var node = 1
        for bit in 0..<bits {
            put(bit: value >> bit & 1, at: place + node)
            node = node << 1 | value >> bit & 1
        }
    }

    private mutating func put(length: Int, at place: Int) {
        let value = length - 2
        put(bit: value < 8 ? 0 : 1, at: place)
        if value < 8 { return put(tree: value, bits: 3, at: place + 2) }
        put(bit: value < 16 ? 0 : 1, at: place + 1)
        if value < 16 { return put(tree: value - 8, bits: 3, at: place + 10) }
        put(tree: value - 16, bits: 8, at: place + 18)
    }

    private mutating func put(distance: Int, length: Int) {
        let value = distance - 1
        let place = 72 + min(length - 2, 3) << 6
        let bits = value < 4 ? 0 : Int.bitWidth - 1 - value.leadingZeroBitCount
        let slot = value < 4 ? value : bits << 1 | value >> (bits - 1) & 1
        put(tree: slot, bits: 6, at: place)
        guard slot >= 4 else { return }
        let rest = bits - 1
        let start = (2 | slot & 1) << rest
        if slot < 14 { return put(reverse: value - start, bits: rest, at: 328 + start - slot) }
        put(direct: (value - start) >> 4, bits: rest - 4)
        put(reverse: value & 15, bits: 4, at: 443)
    }

    private mutating func put(_ symbol: Symbol) {
        let old = state
        let isAfterMatch = old >= 7
        switch symbol {
        case .literal(let byte, let expected):
            put(bit: 0, at: old)
            var node = 1
            var mask = isAfterMatch ? 0x100 : 0
            for shift in (0..<8).reversed() {
                let branch = Int(expected) << (8 - shift) & mask
                let bit = Int(byte) >> shift & 1
                put(bit: bit, at: 1007 + mask + branch + node)
                node = node << 1 | bit
                mask &= bit == 1 ? branch : ~branch
            }
            state = old < 4 ? 0 : old < 10 ? old - 3 : old - 6
        case .match(let distance, let length):
            put(bit: 1, at: old)
            put(bit: 0, at: 12 + old)
            put(length: length, at: 459)
            put(distance: distance, length: length)
            state = isAfterMatch ? 10 : 7
        case .short:
            for (bit, place) in [(1, 0), (1, 12), (0, 24), (0, 60)] { put(bit: bit, at: place + old) }
            state = isAfterMatch ? 11 : 9
        case .repeated(let index, let length):
            put(bit: 1, at: old)
            put(bit: 1, at: 12 + old)
            put(bit: index == 0 ? 0 : 1, at: 24 + old)
            if index == 0 { put(bit: 1, at: 60 + old) }
            if index > 0 { put(bit: index == 1 ? 0 : 1, at: 36 + old) }
            if index > 1 { put(bit: index == 2 ? 0 : 1, at: 48 + old) }
            put(length: length, at: 733)
            state = isAfterMatch ? 11 : 8
        }
    }
}

extension LZMA2Writer {
    /// Returns a stream for `image[from...]`, whose dictionary is `base + image[..<from]`. Each chunk has at most `chunk` plain bytes.
    static func stream(_ image: [UInt8], from: Int, base: [UInt8], chunk: Int = 700) -> [UInt8] {
        let all = base + image
        var places: [ArraySlice<UInt8>: Int] = [:]
        func note(_ place: Int) { if place + 4 <= all.count { places[all[place..<place + 4]] = place } }
        for place in 0..<base.count + from { note(place) }
        var writer = LZMA2Writer()
        var stream: [UInt8] = []
        var at = base.count + from
        while at < all.count {
            let start = at, end = min(at + chunk, all.count)
            var symbols: [Symbol] = []
            var distance = 0
            while at < end {
                let place = at + 4 <= end ? places[all[at..<at + 4]] : nil
                var length = 0
                if let place {
                    while at + length < end, length < 273, all[place + length] == all[at + length] { length += 1 }
                }
                if let place, length >= 4 {
                    symbols.append(
                        at - place == distance
                            ? .repeated(0, length: length) : .match(distance: at - place, length: length))
                    distance = at - place
                } else {
                    length = 1
                    symbols.append(.literal(all[at], expected: distance > 0 ? all[at - distance] : 0))
                }
                for place in at..<at + length { note(place) }
                at += length
            }
            stream += Self.chunk(writer.encode(symbols), plain: end - start, control: stream.isEmpty ? 0xC0 : 0xA0)
        }
        return stream
    }
}
