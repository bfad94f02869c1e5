import OTAArchive

/// The bytes as an archive; and as the deflated bytes of an entry, behind its size of two bytes.
enum ZipFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        if let finding = finding(in: bytes) { return finding }
        var input = FuzzInput(bytes)
        let size = Int(input.next()) << 8 | Int(input.next())
        let packed = input.bytes(upTo: bytes.count)
        // One among the packed bytes may be taken for the archive's own, which is refused.
        let endRecord: [UInt8] = [0x50, 0x4B, 0x05, 0x06]
        if packed.indices.contains(where: { packed[$0...].starts(with: endRecord) }) { return nil }
        let archive = FuzzArchive.bytes([FuzzArchive.File(name: "entry", method: 8, size: size, packed: packed)])
        guard (try? ZipArchive(archive))?.entries.count == 1 else { return "an archive that is whole is refused" }
        return finding(in: archive)
    }

    private static func finding(in bytes: [UInt8]) -> String? {
        guard let archive = try? ZipArchive(bytes) else { return nil }
        guard archive.entries.count <= ZipArchive.maximumEntries else { return "too many entries" }
        guard archive.entries.reduce(0, { $0 + $1.size }) <= ZipArchive.maximumLength else { return "too many bytes" }
        for entry in archive.entries {
            guard archive[entry.name] == entry else { return "\(entry.name) is there twice" }
            guard let contents = try? archive.contents(of: entry) else { continue }
            if contents.count != entry.size { return "\(contents.count) bytes of \(entry.size)" }
        }
        return nil
    }
}
