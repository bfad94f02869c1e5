import Testing

/// An envelope with a name.
struct EnvelopeCase: CustomTestStringConvertible, Sendable {
    var testDescription: String
    var envelope: [UInt8]

    init(_ name: String, _ envelope: [UInt8]) {
        testDescription = name
        self.envelope = envelope
    }

    init(_ name: String, _ release: BenchRelease) { self.init(name, release.envelope) }

    /// Changes the manifest of the example, and then signs it.
    private static func manifest(_ name: String, _ edit: (inout [UInt8]) -> Void) -> EnvelopeCase {
        var manifest = BenchRelease().manifest
        edit(&manifest)
        return EnvelopeCase(name, BenchRelease.envelope(manifest, signers: [.rfc8032]))
    }

    /// Changes the envelope of the example after it was signed.
    private static func envelope(
        _ name: String, signers: [SigningKey] = [.rfc8032], _ edit: (inout [UInt8]) -> Void
    ) -> EnvelopeCase {
        var envelope = BenchRelease(signers: signers).envelope
        edit(&envelope)
        return EnvelopeCase(name, envelope)
    }

    private static func manifest(_ name: String, byte place: Int, _ value: UInt8) -> EnvelopeCase {
        manifest("\(name): byte \(place) is \(value)") { $0[place] = value }
    }

    private static func envelope(_ name: String, byte place: Int, _ value: UInt8) -> EnvelopeCase {
        envelope("\(name): byte \(place) is \(value)") { $0[place] = value }
    }

    /// Large enough that the envelope keeps a valid size when a field is removed.
    private static let padded = BenchRelease().with(0x7000, [UInt8](repeating: 0, count: 40))

    private static func field(_ name: String, _ type: UInt16, _ value: [UInt8]) -> EnvelopeCase {
        EnvelopeCase("\(name) \(value)", padded.with(type, value))
    }

    private static func texts(_ name: String, _ type: UInt16, _ texts: [String]) -> [EnvelopeCase] {
        texts.map { EnvelopeCase("\(name) \($0.debugDescription)", padded.with(type, Array($0.utf8))) }
    }

    private static func sources(_ hex: [String]) -> [EnvelopeCase] { hex.map { field("source", 0x0006, bytes($0)) } }

    /// Each list has pairs of the lowest and the highest revision.
    private static func hardware(_ pairs: [[UInt16]]) -> [EnvelopeCase] {
        pairs.map { list in field("hardware", 0x8003, list.flatMap { little($0) }) }
    }

    /// The example with a second entry of an unknown key. `length` is the announced length, `count` the number of bytes.
    private static func entry(_ name: String, _ algorithm: UInt8, length: Int, count: Int? = nil) -> EnvelopeCase {
        envelope(name) {
            $0[89] = 2
            $0 += [algorithm, 0] + little(UInt16(length)) + [UInt8](repeating: 0xFF, count: 8)
            $0 += [UInt8](repeating: 0xAA, count: count ?? length)
        }
    }

    private static let nine: [SigningKey] =
        [.rfc8032] + (0..<8).map { SigningKey(secret: [UInt8](repeating: 0x60 + $0, count: 32)) }

    private static let longText = String(repeating: "a", count: 64)
}

extension EnvelopeCase {
    static let largest = BenchRelease(signers: [.rfc8032, .second, .third, .fourth])
        .with(0x7000, [UInt8](repeating: 0xEE, count: 1024 - 93))
    /// 158 bytes. The product is "d".
    static let smallest = BenchRelease(fields: [.init(0x0002, Array("1.1.0".utf8)), .init(0x8001, Array("d".utf8))])

    static let malformedHeaders: [EnvelopeCase] = {
        var cases: [EnvelopeCase] = []
        for place in 0..<4 { cases.append(manifest("magic", byte: place, 0x20)) }
        for version in [0, 1, 3, 255] as [UInt8] { cases.append(manifest("format version", byte: 4, version)) }
        for format in [4, 255] as [UInt8] { cases.append(manifest("image format", byte: 5, format)) }
        for size in [0, 63, 64, 88, 90, 255, 1025, 65535] as [UInt16] {
            cases.append(manifest("M = \(size)") { $0.replaceSubrange(6..<8, with: little(size)) })
        }
        for place in Array(12..<16) + Array(20..<24) { cases.append(manifest("zero", byte: place, 0x80)) }
        cases.append(manifest("N = 0") { $0.replaceSubrange(8..<12, with: [0, 0, 0, 0]) })
        cases.append(EnvelopeCase("after the year 9999", BenchRelease(created: 253_402_300_800)))
        cases.append(EnvelopeCase("the largest time", BenchRelease(created: .max)))
        let tooLarge = BenchRelease().with(0x7000, [UInt8](repeating: 0, count: 1025 - 93))
        cases.append(EnvelopeCase("a manifest of 1025 bytes", tooLarge))
        return cases
    }()

    static let malformedFields: [EnvelopeCase] = {
        var cases = texts(
            "version", 0x0002,
            [
                "1.0", "1.0.", "1.0.0-", "1.0.0+", "01.0.0", "1.00.0", "1.0.00", "1.0.0-01", "1.0.0-a..b", "1.0.0-a.",
                "1.0.0-.a", "1.0.0+a+b", "1.0.0+a..b", "1.0.0-é", "v1.0.0", "1.0.0 ", " 1.0.0", "1.0.0.0",
                "4294967296.0.0", "0.4294967296.0", "0.0.99999999999999999999", "1..0.0", "-1.0.0", "1.0.0-a_b",
                "1.0.0\0", "1.0.0-" + longText.prefix(58),
            ])
        for value in [[], [101], [255], [50, 0]] as [[UInt8]] {
            cases.append(field("minimum battery", 0x0004, value))
        }
        cases += sources([
            "", "0a", "6100", "7f", "c280", "c29f", "80", "bf", "c080", "c1bf", "e08080", "e09fbf", "eda080", "edbfbf",
            "f0808080", "f08fbfbf", "f4908080", "f5808080", "ff", "c3", "e282", "f09f98", "c328", "e28228", "f09f9828",
        ])
        cases.append(field("source", 0x0006, [UInt8](repeating: 0x61, count: 128)))
        // The type of the next field (0x80) looks like the rest of the character.
        cases.append(EnvelopeCase("source cut short", BenchRelease().with(0x0006, [0xC3]).with(0x0080, [])))
        cases += texts("product", 0x8001, ["", "a b", "a/b", "ä", "a\0", "a\n", "demo:", "@", "[", "`", "{", longText])
        cases += hardware([
            [], [1], [1, 2, 3], [2, 1], [1, 3, 3, 4], [1, 3, 4, 5], [5, 6, 1, 2], [1, 1, 1, 1], [0, 65535, 0, 0],
            [0, 65534, 65535, 65535], (0..<17).flatMap { [3 * $0, 3 * $0] },
        ])
        cases.append(field("hardware", 0x8003, [1, 0, 3, 0, 0]))
        for count in [0, 4, 8, 11, 13, 16] {
            cases.append(field("requires", 0x8005, [UInt8](repeating: 0, count: count)))
        }
        cases.append(EnvelopeCase("no version", padded.without(0x0002)))
        cases.append(EnvelopeCase("no product", padded.without(0x8001)))
        let fields = padded.fields
        cases.append(EnvelopeCase("the last field twice", BenchRelease(fields: fields + fields.suffix(1))))
        cases.append(EnvelopeCase("descending fields", BenchRelease(fields: fields.reversed())))
        cases.append(
            EnvelopeCase("an unknown field twice", BenchRelease(fields: [.init(1, []), .init(1, [])] + fields)))
        cases.append(
            manifest("an incomplete field header") {
                $0 += [0xFF, 0x7F, 0]
                $0[6] += 3
            })
        cases.append(manifest("a field that ends beyond M", byte: 83, 5))
        cases.append(manifest("a field of 65535 bytes") { $0.replaceSubrange(83..<85, with: [255, 255]) })
        return cases
    }()

    static let malformedSignatures: [EnvelopeCase] = {
        var cases: [EnvelopeCase] = []
        for count in [0, 9, 255] as [UInt8] { cases.append(envelope("count", byte: 89, count)) }
        for place in [90, 91, 92, 94] { cases.append(envelope("zero", byte: place, 1)) }
        for algorithm in [2, 3, 4] as [UInt8] { cases.append(envelope("algorithm", byte: 93, algorithm)) }
        for length in [0, 63, 65, 8000, 65535] as [UInt16] {
            cases.append(envelope("a length of \(length)") { $0.replaceSubrange(95..<97, with: little(length)) })
        }
        for (algorithm, length) in [
            (0, 0), (5, 0), (255, 0), (0, 8001), (5, 8001), (255, 60000), (1, 63), (1, 65), (2, 2419), (2, 2421),
            (3, 3308), (3, 3310), (4, 4626), (4, 4628),
        ] as [(UInt8, Int)] {
            cases.append(entry("algorithm \(algorithm), length \(length)", algorithm, length: length))
        }
        cases.append(entry("algorithm 255, length 65535", 255, length: 65535, count: 64))
        cases.append(entry("a signature that ends one byte after the envelope", 5, length: 100, count: 99))
        cases.append(entry("a signature that ends one byte before the end", 5, length: 100, count: 101))
        cases.append(
            envelope("half of an entry's header") {
                $0[89] = 2; $0 += [5, 0, 1, 0, 0xFF]
            })
        cases.append(envelope("a byte too many") { $0.append(0) })
        cases.append(envelope("a byte too few") { $0.removeLast() })
        cases.append(envelope("count 2, one signature", byte: 89, 2))
        let two: [SigningKey] = [.rfc8032, .second]
        cases.append(envelope("count 1, two signatures", signers: two) { $0[89] = 1 })
        cases.append(
            envelope("descending keys", signers: two) {
                $0.replaceSubrange(93..<245, with: Array($0[169..<245] + $0[93..<169]))
            })
        cases.append(envelope("the same key twice", signers: [.rfc8032, .rfc8032]) { _ in })
        cases.append(
            envelope("the same key twice, with two algorithms") {
                $0[89] = 2
                $0 += [5, 0, 1, 0] + SigningKey.rfc8032.id + [0]
            })
        cases.append(envelope("nine signatures", signers: nine) { _ in })
        return cases
    }()

    static let sound: [EnvelopeCase] = {
        var cases = texts(
            "version", 0x0002,
            [
                "0.0.0", "1.0.0-a", "1.0.0+01", "1.0.0-0a.b-c.0+x.00-1", "4294967295.4294967295.4294967295", "1.0.0--",
                "1.0.0+-.-", "1.0.0-" + longText.prefix(57),
            ])
        for level in [0, 100] as [UInt8] { cases.append(field("minimum battery", 0x0004, [level])) }
        cases += sources([
            "20", "7e", "c2a0", "dfbf", "e0a080", "ed9fbf", "ee8080", "efbfbf", "f0908080", "f48fbfbf",
            String(repeating: "61", count: 127),
        ])
        cases += hardware([[2, 2], [0, 65535], [0, 0, 2, 65535], (0..<16).flatMap { [2 + 2 * $0, 2 + 2 * $0] }])
        for type in [0, 1, 3, 7, 0x7FFF] as [UInt16] { cases.append(field("unknown field \(type)", type, [1, 2, 3])) }
        cases.append(field("unknown field", 0x7FFF, []))
        cases.append(EnvelopeCase("no hardware", padded.without(0x8003)))
        cases.append(EnvelopeCase("the last second of the year 9999", BenchRelease(created: 253_402_300_799)))
        cases.append(EnvelopeCase("the largest envelope with four Ed25519 signatures", largest))
        cases.append(EnvelopeCase("eight signatures", BenchRelease(signers: Array(nine.prefix(8)))))
        for (algorithm, length) in [
            (0, 1), (0, 8000), (5, 1), (5, 8000), (255, 64), (1, 64), (2, 2420), (3, 3309), (4, 4627),
        ] as [(UInt8, Int)] {
            cases.append(entry("a skipped entry: algorithm \(algorithm), \(length) bytes", algorithm, length: length))
        }
        cases.append(EnvelopeCase("four signatures", BenchRelease(signers: [.fourth, .third, .second, .rfc8032])))
        return cases
    }()
}
