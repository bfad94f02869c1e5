import OTAArchive
import OTAFirmware
import OTASigning

/// A zip archive with a `manifest.json` that lists the other files. The packages for nRF Connect Device Manager and for Nordic DFU are such
/// archives.
///
/// The user sends a verified package with another program. So this type refuses an archive from which that program could read other files.
struct PackageArchive {
    private static let manifestName = "manifest.json"
    /// The maximum size of `manifest.json` in bytes.
    private static let longestManifest = 1 << 20
    /// The characters that a file name cannot have on every system.
    private static let specialBytes = Array("/\\:*?\"<>|".utf8)

    /// The contents of `manifest.json`. No signature covers them.
    let manifest: JSON
    private let archive: ZipArchive

    /// Reads the manifest. Returns nil if the archive does not contain `manifest.json`.
    ///
    /// Decoders of JSON differ in which of two members with the same name they use, so this initializer refuses what the strict parser
    /// refuses.
    ///
    /// - Throws: `ZipError`; `bad-package-manifest` if the manifest is too long, or if it is not JSON.
    init?(_ bytes: [UInt8]) throws {
        archive = try ZipArchive(bytes)
        guard let entry = archive[Self.manifestName] else { return nil }
        guard entry.size <= Self.longestManifest else {
            throw PackageError(
                .badManifest, "its manifest.json has \(entry.size) bytes; the limit is \(Self.longestManifest)")
        }
        let text = try archive.contents(of: entry)
        do throws(JSON.Malformed) {
            manifest = try JSON(parsing: text[...])
        } catch {
            throw PackageError(.badManifest, "its manifest.json is malformed at byte \(error.offset): \(error.reason)")
        }
    }

    /// Returns the entry of a file that the manifest lists.
    ///
    /// - Throws: `missing-package-file`.
    func entry(_ name: String) throws(PackageError) -> ZipEntry {
        guard let entry = archive[name] else {
            throw PackageError(
                .missingFile,
                "its manifest.json lists \(name.escapingUnprintable), which is not in the archive")
        }
        return entry
    }

    /// Returns the unpacked bytes of an entry.
    func contents(of entry: ZipEntry) throws(ZipError) -> [UInt8] { try archive.contents(of: entry) }

    /// Checks that the archive contains no other files than the listed ones, and that each program that unpacks the archive gives them
    /// exactly their names. Otherwise, such a program could write another entry over a listed file.
    ///
    /// - Parameter listed: the names of the files that the manifest lists.
    /// - Throws: `unsafe-package-name`; `bad-package-manifest` for an entry that the manifest does not list.
    func checkNames(listed: [String]) throws(PackageError) {
        let names = archive.entries.map(\.name)
        for name in names where !Self.isPlain(name) {
            throw PackageError(
                .unsafeName,
                "its entry \(name.escapingUnprintable) does not have the name of a file in the folder of the package")
        }
        let expected = Set(listed + [Self.manifestName])
        for name in names where !expected.contains(name) {
            throw PackageError(
                .badManifest, "its manifest.json does not list \(name.escapingUnprintable), which is in the archive")
        }
        guard Set(names.map { $0.lowercased() }).count == names.count else {
            throw PackageError(.unsafeName, "the names of two entries differ only in upper and lower case")
        }
    }

    /// Whether the name is that of a file in one folder, on each system. Windows removes dots and spaces at the end.
    private static func isPlain(_ name: String) -> Bool {
        guard let last = name.utf8.last, last != UInt8(ascii: "."), last != UInt8(ascii: " ") else { return false }
        return !name.utf8.contains { specialBytes.contains($0) }
    }
}
