import OTAArchive
import OTAFirmware
import OTASigning

/// A package for nRF Connect Device Manager: the images that its manifest names. The manifest is signed by nobody; it
/// says which of the device's images each file is, and may not contradict what the files say of themselves.
package enum ImagePackage {
    /// - Throws: `ZipError`, `PackageError`; `Failure` with the file's name for an image that cannot be read.
    package static func images(in bytes: [UInt8]) throws -> [NumberedFile] {
        let archive = try ZipArchive(bytes)
        guard let entry = archive[PackageManifest.name] else {
            throw PackageError(.noManifest, "there is no manifest.json in it")
        }
        guard entry.size <= maximumManifestSize else {
            throw PackageError(.badManifest, "its manifest.json has \(entry.size) bytes")
        }
        let manifest = try PackageManifest(parsing: archive.contents(of: entry))
        guard !manifest.files.isEmpty else { throw PackageError(.badManifest, "its manifest.json names no file") }
        // Before anything is unpacked: a file that is named a thousand times would be in memory as often.
        if let number = repeated(manifest.files.map(\.number)) {
            throw PackageError(
                .duplicateImage, "several of its files are for the image \(number), such as one for each slot")
        }
        if let name = repeated(manifest.files.map(\.file)) {
            throw PackageError(.badManifest, "its manifest.json names \(name) for several images")
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
            throw PackageError(.missingFile, "its manifest names \(file.file), which is not in it")
        }
        if let size = file.size, size != entry.size {
            throw PackageError(.fileMismatch, "\(entry.name) has \(entry.size) bytes, and the manifest says \(size)")
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
            "\(file.file) is version \(version), and the manifest says \(text)")
    }
}
