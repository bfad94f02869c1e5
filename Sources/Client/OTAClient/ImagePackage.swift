import OTAArchive
public import OTAFirmware
import OTASigning

/// Reads the images of a package for nRF Connect Device Manager.
///
/// The package contains a manifest without a signature. The manifest assigns an image number to each file. The sizes and versions in the
/// manifest must match the files.
package enum ImagePackage {
    /// Returns the images in a zip archive.
    ///
    /// - Throws: `ZipError`, `PackageError`; `PackagedImageError` for an invalid image.
    package static func images(in bytes: [UInt8]) throws -> [NumberedFile] {
        guard let archive = try PackageArchive(bytes) else {
            throw PackageError(.noManifest, "it contains no manifest.json")
        }
        let manifest = try PackageManifest(archive.manifest)
        guard !manifest.files.isEmpty else { throw PackageError(.badManifest, "its manifest.json lists no file") }
        // The next two checks run before any file is unpacked. Without them, a file that is listed 1000 times would be in memory 1000
        // times.
        if let number = repeated(manifest.files.map(\.number)) {
            throw PackageError(
                .duplicateImage, "several of its files are for image \(number), for example one for each slot")
        }
        if let name = repeated(manifest.files.map(\.file)) {
            throw PackageError(.badManifest, "its manifest.json lists \(name) for several images")
        }
        let images = try manifest.files.map { try image($0, in: archive) }
        try archive.checkNames(listed: manifest.files.map(\.file))
        return images
    }

    private static func repeated<Value: Hashable>(_ values: [Value]) -> Value? {
        var seen: Set<Value> = []
        return values.first { !seen.insert($0).inserted }
    }

    private static func image(_ file: PackageManifest.File, in archive: PackageArchive) throws -> NumberedFile {
        let entry = try archive.entry(file.file)
        if let size = file.size, size != entry.size {
            throw PackageError(
                .fileMismatch, "\(entry.name) has \(entry.size) bytes, but its manifest.json lists \(size)")
        }
        let contents = try archive.contents(of: entry)
        let image: MCUbootFile
        do throws(ImageError) {
            image = try MCUbootFile(parsing: contents)
        } catch {
            throw PackagedImageError(file: entry.name, cause: error)
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

/// The file `manifest.json` in a package for nRF Connect Device Manager, with only the members that otaflash uses.
///
/// The nRF Connect SDK writes this file.
private struct PackageManifest {
    struct File {
        let file: String
        let board: String?
        /// The size of the file in bytes; nil: the manifest lists no size.
        let size: Int?
        /// The number of the device's image that the file replaces; 0 if the manifest lists no number.
        let number: UInt32
        let versionMCUboot: String?

        /// Returns nil if a member is missing or has another type.
        init?(_ json: JSON) {
            guard let file = json["file"]?.string else { return nil }
            self.file = file
            do {
                board = try Self.text(json["board"])
                versionMCUboot = try Self.text(json["version_MCUBOOT"])
                size = try Self.number(json["size"]).map { Int($0) }
                number = try Self.number(json["image_index"], orText: true) ?? 0
            } catch {
                return nil
            }
        }

        private struct WrongType: Error {}

        private static func text(_ json: JSON?) throws(WrongType) -> String? {
            switch json {
            case nil, .null?: return nil
            case .string(let text)?: return text
            default: throw WrongType()
            }
        }

        /// - Parameter orText: whether the number may be a JSON string, as the nRF Connect SDK writes image numbers.
        private static func number(_ json: JSON?, orText: Bool = false) throws(WrongType) -> UInt32? {
            let number: UInt32?
            switch json {
            case nil, .null?: return nil
            case .number(let text)?: number = UInt32(text)
            case .string(let text)? where orText: number = Numeral.value(text, in: 0...UInt32.max)
            default: number = nil
            }
            guard let number else { throw WrongType() }
            return number
        }
    }

    let files: [File]

    /// - Throws: `badManifest` if the value is not a manifest for nRF Connect Device Manager.
    init(_ json: JSON) throws(PackageError) {
        let files = json["files"]?.array?.map { File($0) }
        guard let files, !files.contains(where: { $0 == nil }) else {
            throw PackageError(
                .badManifest, "its manifest.json does not list files in the format of nRF Connect Device Manager")
        }
        self.files = files.compactMap { $0 }
    }
}

/// An invalid image in a package.
public struct PackagedImageError: Error, Sendable {
    /// The name of the file in the package.
    public let file: String
    public let cause: ImageError
}
