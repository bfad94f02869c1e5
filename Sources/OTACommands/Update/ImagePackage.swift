import OTAArchive
import OTAFirmware
import OTASigning

/// Reads a package for nRF Connect Device Manager: the images that its manifest lists.
///
/// The manifest is not signed. It assigns an image number to each file. Its sizes and versions must agree with the files.
package enum ImagePackage {
    /// Returns the images in a zip archive.
    ///
    /// - Throws: `ZipError`, `PackageError`; `Failure` with the name of the file for an invalid image.
    package static func images(in bytes: [UInt8]) throws -> [NumberedFile] {
        let archive = try ZipArchive(bytes)
        guard let entry = archive[PackageManifest.name] else {
            throw PackageError(.noManifest, "it contains no manifest.json")
        }
        guard entry.size <= maximumManifestSize else {
            throw PackageError(
                .badManifest, "its manifest.json has \(entry.size) bytes; the limit is \(maximumManifestSize)")
        }
        let manifest = try PackageManifest(parsing: archive.contents(of: entry))
        guard !manifest.files.isEmpty else { throw PackageError(.badManifest, "its manifest.json lists no file") }
        // Checked before files are unpacked: a file that is listed 1000 times would be in memory 1000 times.
        if let number = repeated(manifest.files.map(\.number)) {
            throw PackageError(
                .duplicateImage, "several of its files are for image \(number), for example one for each slot")
        }
        if let name = repeated(manifest.files.map(\.file)) {
            throw PackageError(.badManifest, "its manifest.json lists \(name) for several images")
        }
        return try manifest.files.map { try image($0, in: archive) }
    }

    private static func repeated<Value: Hashable>(_ values: [Value]) -> Value? {
        var seen: Set<Value> = []
        return values.first { !seen.insert($0).inserted }
    }

    private static let maximumManifestSize = 1 << 20

    private static func image(_ file: PackageManifest.File, in archive: ZipArchive) throws -> NumberedFile {
        guard let entry = archive[file.file] else {
            throw PackageError(.missingFile, "its manifest.json lists \(file.file), which is not in the archive")
        }
        if let size = file.size, size != entry.size {
            throw PackageError(
                .fileMismatch, "\(entry.name) has \(entry.size) bytes, but its manifest.json lists \(size)")
        }
        let contents = try archive.contents(of: entry)
        let image: MCUbootFile
        do throws(ImageError) {
            image = try MCUbootFile(parsing: contents)
        } catch {
            throw Failure(error, in: Invocation(command: "inspect", file: entry.name))
        }
        try check(image.image.version, file)
        return NumberedFile(number: file.number, name: entry.name, board: file.board, file: image)
    }

    private static func check(_ version: MCUbootImage.Version, _ file: PackageManifest.File) throws(PackageError) {
        guard let text = file.versionMCUboot, MCUbootImage.Version(text) != version else { return }
        throw PackageError(
            .fileMismatch,
            "\(file.file) has version \(version), but its manifest.json lists \(text)")
    }
}
