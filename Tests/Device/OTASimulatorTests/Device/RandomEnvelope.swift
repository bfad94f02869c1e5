import OTAFirmware
import OTAUpdate

/// The bytes of a random envelope. Each part is usually valid, often at its limits, and sometimes invalid.
struct RandomEnvelope {
    private(set) var bytes: [UInt8]

    init(_ random: inout SplitMix64) {
        var source = Source(random: random)
        var fields = source.fields()
        if !source.rarely() { fields.sort { $0.type < $1.type } }
        let body = fields.flatMap { little($0.type) + little(UInt16(truncatingIfNeeded: $0.value.count)) + $0.value }
        let length = UInt16(truncatingIfNeeded: 64 + body.count)
        bytes = Array((source.rarely() ? "OTAX" : "OTAF").utf8)
        bytes += [
            source.rarely() ? source.one(of: [1, 3]) : 2,
            source.rarely() ? source.any() : source.one(of: [0, 0, 0, 0, 0, 1, 2]),
        ]
        bytes += little(source.rarely() ? source.any() : length)
        bytes += little(source.one(of: [1, 600, 65536, 65536, 65537, .max, 0] as [UInt32]))
        bytes += source.zeros(4) + little(source.one(of: [5, 6, 5, 6, .max, 4, 0] as [UInt32])) + source.zeros(4)
        bytes += little(source.one(of: [0, 1, 253_402_300_799, 1_767_225_600, 253_402_300_800] as [UInt64]))
        bytes += source.bytes(32) + body + source.signatures()
        if source.rarely() { bytes.removeLast(min(bytes.count, Int(source.any(UInt8.self)) + 1)) }
        if source.rarely() { bytes += source.bytes(Int(source.any(UInt8.self)) + 1) }
        if source.rarely(), !bytes.isEmpty {
            bytes[Int(source.any(UInt32.self)) % bytes.count] ^= 1 << (source.any(UInt8.self) % 8)
        }
        random = source.random
    }

    private struct Source {
        var random: SplitMix64

        mutating func rarely() -> Bool { random.next() % 40 == 0 }
        mutating func any<Number: FixedWidthInteger & UnsignedInteger>(_ type: Number.Type = Number.self) -> Number {
            Number(truncatingIfNeeded: random.next())
        }
        mutating func one<Choice>(of choices: [Choice]) -> Choice {
            choices[Int(random.next() % UInt64(choices.count))]
        }
        mutating func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in any() } }
        mutating func zeros(_ count: Int) -> [UInt8] {
            var zeros = [UInt8](repeating: 0, count: count)
            if rarely() { zeros[Int(random.next() % UInt64(count))] = any() }
            return zeros
        }

        mutating func fields() -> [(type: UInt16, value: [UInt8])] {
            var fields: [(type: UInt16, value: [UInt8])] = []
            if !rarely() { fields.append((0x0002, version())) }
            if !rarely() { fields.append((0x8001, Array(product().utf8))) }
            if random.next() % 3 == 0 {
                fields.append((0x0004, rarely() ? bytes(2) : [one(of: [0, 49, 50, 51, 100, 101])]))
            }
            if random.next() % 3 == 0 { fields.append((0x0006, text())) }
            if random.next() % 3 == 0 { fields.append((0x8003, hardware())) }
            if random.next() % 3 == 0 { fields.append((0x8005, requires())) }
            if random.next() % 4 == 0 {
                let type: UInt16 = one(of: [0, 1, 3, 7, 0x7FFF, 0x8000, 0x8002, 0x8007, 0xFFFF, 0x7FFE, any() & 0x7FFF])
                fields.append((type, bytes(one(of: [0, 1, 7, 255, 800]))))
            }
            if rarely() { fields.append((one(of: [0x0002, 0x0006, 0x8001]), bytes(6))) }
            return fields
        }

        mutating func product() -> String {
            if rarely() { return one(of: ["", "a b", "ä", "a\0", "-.", String(repeating: "x", count: 64)]) }
            return one(of: [
                "demo", "demo", "demo", "demo", "Demo", "demo1", "a", "._-", String(repeating: "x", count: 63),
            ])
        }

        /// Returns a version that usually follows the grammar of SemVer and sometimes violates it.
        mutating func version() -> [UInt8] {
            let numbers = [
                "0", "1", "2", "10", "4294967295", "1", "1", "4294967296", "01", "", "99999999999999999999999", "1a",
            ]
            let words = [
                "0", "1", "10", "a", "rc", "-", "--", "0a", "x-Y", "01", "", "ä", "\r\n", "a_b", "+", "\u{301}", "\0",
            ]
            func number(_ random: inout SplitMix64) -> String {
                numbers[Int(random.next() % (random.next() % 8 == 0 ? 12 : 7))]
            }
            var text = [number(&random), number(&random), number(&random)].joined(separator: rarely() ? ".." : ".")
            for mark in ["-", "+"] where random.next() % 3 == 0 {
                let count = 1 + random.next() % 3
                text +=
                    mark
                    + (0..<count).map { _ in words[Int(random.next() % (random.next() % 6 == 0 ? 17 : 9))] }
                    .joined(separator: ".")
            }
            if rarely() { text += String(repeating: "a", count: 60) }
            return rarely() ? Array(text.utf8) + bytes(1) : Array(text.utf8)
        }

        mutating func text() -> [UInt8] {
            let pieces: [[UInt8]] = [
                [0x61], [0x20], [0x7E], [0xC2, 0xA0], [0xDF, 0xBF], [0xE0, 0xA0, 0x80], [0xED, 0x9F, 0xBF],
                [0xEF, 0xBF, 0xBF], [0xF0, 0x90, 0x80, 0x80], [0xF4, 0x8F, 0xBF, 0xBF], [0xE2, 0x80, 0xAE],
                [0x0D, 0x0A], [0x7F], [0x1B], [0xC2, 0x85], [0xED, 0xA0, 0x80], [0xC0, 0x80], [0xF5, 0x80, 0x80, 0x80],
                [0xE2, 0x82], [0x80], [0xF4, 0x90, 0x80, 0x80], [0xF0, 0x8F, 0xBF, 0xBF], [0],
            ]
            let length = one(of: [0, 1, 1, 3, 10, 31, 40, 127, 128])
            return (0..<length).flatMap { _ in pieces[Int(random.next() % (random.next() % 40 == 0 ? 23 : 11))] }
        }

        mutating func hardware() -> [UInt8] {
            var value: [UInt8] = []
            var lowest: UInt16 = one(of: [0, 0, 1, 2, 3])
            for _ in 0..<one(of: [1, 1, 2, 3, 16, 17, 0]) {
                let highest = rarely() ? any() : lowest &+ one(of: [0, 0, 1, 5])
                value += little(lowest) + little(highest)
                lowest = highest &+ one(of: [2, 2, 2, 2, 3, 9, 1, 60_000])
            }
            return rarely() ? value + [0] : value
        }

        mutating func requires() -> [UInt8] {
            let parts: [UInt32] = [one(of: [0, 1, 1, 2]), one(of: [0, 2, 2, 3]), one(of: [0, 3, 4, .max])]
            return parts.flatMap { little($0) } + (rarely() ? [0] : [])
        }

        mutating func signatures() -> [UInt8] {
            // The longest envelopes are rare, because each has 64 KB.
            if random.next() % 2000 == 0 {
                return [8, 0, 0, 0]
                    + (0..<8).flatMap { [255, 0] + little(UInt16(8000)) + [UInt8](repeating: $0, count: 8008) }
            }
            let count = one(of: [1, 1, 1, 1, 2, 2, 2, 3, 4, 8, 8, 0, 9])
            var entries = (0..<count).map { _ in (id: bytes(8), algorithm: one(of: Self.algorithms)) }
            for (index, key) in EnvelopeChecker.keys.enumerated() where index < count && random.next() % 8 != 0 {
                entries[index] = (key.id, rarely() ? one(of: Self.algorithms) : key.algorithm.rawValue)
            }
            if !rarely() { entries.sort { $0.id.lexicographicallyPrecedes($1.id) } }
            if rarely(), count > 1 { entries[1].id = entries[0].id }
            let announced = rarely() ? any() : UInt8(count)
            return [announced] + zeros(3) + entries.flatMap { entry($0.id, $0.algorithm) }
        }

        /// Two unlisted algorithms. Zero is one of them.
        private static let algorithms: [UInt8] = [1, 1, 1, 1, 1, 1, 2, 2, 3, 4, 0, 255]

        mutating func entry(_ id: [UInt8], _ algorithm: UInt8) -> [UInt8] {
            var length: UInt16 =
                switch algorithm {
                case 1: 64
                case 2: 2420
                case 3: 3309
                case 4: 4627
                default: one(of: [1, 2, 64, 64, 100, 100, 8000])
                }
            if random.next() % 100 == 0 { length = one(of: [0, 1, 63, 65, 2421, 8000, 8001, 65535, any()]) }
            // A long signature needs no random bytes, because both parsers only count them.
            let signature = [UInt8](repeating: any(), count: Int(length))
            return [algorithm] + zeros(1) + little(length) + id
                + (random.next() % 200 == 0 ? signature.dropLast(one(of: [1, 13])) : signature[...])
        }
    }
}

private func little<Number: FixedWidthInteger & UnsignedInteger>(_ number: Number) -> [UInt8] {
    (0..<Number.bitWidth / 8).map { UInt8(truncatingIfNeeded: number >> (8 * Number($0))) }
}
