import FoundationEssentials
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
        let archive = try ZipArchive(bytes)
        guard let entry = archive[PackageManifest.name] else {
            throw PackageError(.noManifest, "it contains no manifest.json")
        }
        guard entry.size <= maximumManifestSize else {
            throw PackageError(
                .badManifest, "its manifest.json has \(entry.size) bytes; the limit is \(maximumManifestSize)")
        }
        let text = try archive.contents(of: entry)
        let manifest = try PackageManifest(parsing: text)
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
private struct PackageManifest: Decodable {
    static let name = "manifest.json"

    struct File: Decodable {
        let file: String
        let type: String?
        let board: String?
        /// The size of the file in bytes; nil: the manifest lists no size.
        let size: Int?
        /// The image number. The nRF Connect SDK writes this number as a JSON string.
        let imageIndex: Number?
        let versionMCUboot: String?

        /// The number of the device's image that the file replaces; 0 if the manifest lists no number.
        var number: UInt32 { imageIndex?.value ?? 0 }

        private enum CodingKeys: String, CodingKey {
            case file, type, board, size
            case imageIndex = "image_index"
            case versionMCUboot = "version_MCUBOOT"
        }
    }

    /// A JSON number, or a JSON string with a decimal number.
    struct Number: Decodable {
        let value: UInt32

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let text = try? container.decode(String.self) {
                guard let number = Numeral.value(text, in: 0...UInt32.max) else {
                    throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a number")
                }
                value = number
            } else {
                value = try container.decode(UInt32.self)
            }
        }
    }

    let files: [File]

    /// Parses `manifest.json`.
    ///
    /// - Throws: `badManifest` if the text is not a manifest for nRF Connect Device Manager.
    init(parsing json: [UInt8]) throws(PackageError) {
        do {
            self = try JSONDecoder().decode(Self.self, from: Data(json))
        } catch {
            throw PackageError(
                .badManifest, "its manifest.json does not list files in the format of nRF Connect Device Manager")
        }
    }
}

/// An invalid image in a package.
public struct PackagedImageError: Error, Sendable {
    /// The name of the file in the package.
    public let file: String
    public let cause: ImageError
}
