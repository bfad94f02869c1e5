/// A bundle, correct or with a fault that no release pipeline produces.
struct BenchRelease {
    var format: UInt8 = 0
    var image: [UInt8] = BenchRelease.image(count: 600)
    var counter: UInt32 = 7
    var created: UInt64 = 1_767_225_600
    var fields: [Field] = [
        Field(0x0002, Array("1.1.0".utf8)), Field(0x8001, Array("demo".utf8)),
        Field(0x8003, little(UInt32(0x0003_0001))),
    ]
    var signers: [SigningKey] = [.rfc8032]

    struct Field {
        var type: UInt16
        var value: [UInt8]

        init(_ type: UInt16, _ value: [UInt8]) {
            self.type = type
            self.value = value
        }
    }

    var manifest: [UInt8] {
        let list = fields.flatMap { little($0.type) + little(UInt16($0.value.count)) + $0.value }
        return Array("OTAF".utf8) + [2, format] + little(UInt16(64 + list.count)) + little(UInt32(image.count))
            + little(UInt32(0)) + little(counter) + little(UInt32(0)) + little(created) + Crypto.sha256(image) + list
    }

    var envelope: [UInt8] { Self.envelope(manifest, signers: signers) }
    var digest: [UInt8] { Crypto.sha256(manifest) }

    /// Returns the release with a field in the correct order. It replaces a field of the same type.
    func with(_ type: UInt16, _ value: [UInt8]) -> BenchRelease {
        var release = without(type)
        let place = release.fields.firstIndex { $0.type > type } ?? release.fields.count
        release.fields.insert(Field(type, value), at: place)
        return release
    }

    func without(_ type: UInt16) -> BenchRelease {
        var release = self
        release.fields.removeAll { $0.type == type }
        return release
    }

    static func image(count: Int, seed: Int = 0) -> [UInt8] { (0..<count).map { UInt8(($0 + seed) % 251) } }

    static func envelope(_ manifest: [UInt8], signers: [SigningKey]) -> [UInt8] {
        manifest + [UInt8(signers.count), 0, 0, 0]
            + signers.sorted { $0.id.lexicographicallyPrecedes($1.id) }
            .flatMap { $0.entry(manifest) }
    }
}
