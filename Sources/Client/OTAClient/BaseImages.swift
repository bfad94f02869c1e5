import Glibc
public import OTAFirmware
import OTASigning
public import SystemPackage

/// The images that a device may run at present. They are read from files and folders.
///
/// If the device runs one of these images and decodes deltas, a push can use this image as the base. The push then sends a delta: only the
/// differences between the base and the new image (docs/smaller-updates.md). A base needs no signature. The device compares the digest of
/// its running image with the digest of the base before it accepts a delta.
public struct BaseImages: Sendable {
    /// The images in the order of the paths. `BaseImage.id` is the position in this array.
    public private(set) var images: [BaseImage] = []
    private var files: [FilePath] = []
    /// The id of the image in each file.
    private var ids: [FilePath: Int] = [:]

    /// Finds the images at the given paths.
    ///
    /// - Parameters:
    ///   - paths: bundles, images (also as Intel HEX text), and folders. From a folder, only the bundles are used, because only a bundle
    ///     names the product and the version of its image. They are used in the order of their file names. Folders inside a folder are not
    ///     searched.
    ///   - areChosen: true if the user named the paths in the current command; false for ``defaultPaths``.
    ///   - note: receives the messages about unusable paths and files, at most four for one folder.
    ///   - isStopped: returns true to end the search. The images that were found before remain.
    public init(
        in paths: [FilePath], areChosen: Bool = true, note: (String) -> Void = { _ in },
        isStopped: () -> Bool = { false }
    ) {
        var seen = Set<FilePath>()
        for path in paths where !isStopped() {
            guard seen.insert(path).inserted else { continue }
            do throws(BaseError) {
                guard let names = try Self.names(in: path) else {
                    let id = add(try Self.image(at: path), path)
                    if areChosen { images[id].isNamed = true }
                    continue
                }
                add(names, in: path, isStopped, note)
            } catch {
                note("no base from \(path): \(error.context)")
            }
        }
    }

    /// The maximum number of notes about single files of one folder. If more files are unusable, one more note reports the number of the
    /// remaining ones.
    private static let mostNotes = 3

    /// Adds the bundles of a folder.
    private mutating func add(
        _ names: [String], in folder: FilePath, _ isStopped: () -> Bool, _ note: (String) -> Void
    ) {
        var (bundles, unusable) = (0, 0)
        for name in names {
            if isStopped() { return }
            let file = folder.appending(name)
            do throws(BaseError) {
                // The folder can also contain other files, such as keys and checksums. They are ignored without a note.
                guard let bundle = try Self.bundle(at: file) else { continue }
                _ = add(bundle, file)
                bundles += 1
            } catch {
                if error.isFolder { continue }
                unusable += 1
                if unusable <= Self.mostNotes { note("no base from \(file): \(error.context)") }
            }
        }
        if unusable > Self.mostNotes { note("no base from \(unusable - Self.mostNotes) more files in \(folder)") }
        if bundles == 0, unusable == 0 { note("no base from \(folder): the folder contains no bundle") }
    }

    /// The default paths of the files and folders with images.
    ///
    /// These are the paths in `$OTAFLASH_BASES`, separated by `:`. If this variable is not set, the only path is the folder `bases` in
    /// `Environment.dataFolder`, normally `~/.local/share/otaflash/bases`. If this folder does not exist, the array is empty.
    public static var defaultPaths: [FilePath] {
        if let list = Environment.value("OTAFLASH_BASES") {
            return list.split(separator: ":").map { FilePath(String($0)) }
        }
        guard let folder = Environment.dataFolder?.appending("bases"), access(folder.string, F_OK) == 0 else {
            return []
        }
        return [folder]
    }

    /// Returns the image in the bytes of a bundle, a hex text or an image.
    ///
    /// - Throws: `BundleError`, `HexError`; `ImageError` for a file that is not an image, such as a key; `VerificationError` with
    ///   `digestMismatch` if the image in a bundle does not match the manifest.
    package static func image(in bytes: [UInt8]) throws -> [UInt8] {
        let kind = FirmwareFileKind.detect(file: bytes)
        switch kind {
        case .bundle:
            let bundle = try SignedBundle(parsing: bytes)
            guard SHA256.digest(of: bundle.image) == bundle.envelope.manifest.imageDigest else {
                throw VerificationError(.digestMismatch, "the image does not match the manifest; fetch the file again")
            }
            return bundle.image
        case .hexText(let format):
            return try HexImage(parsing: bytes, as: format, maximumSpan: EncodedImage.maximumSize).bytes
        case .binary: return bytes
        case .elf, .uf2, .zip, .pem, .foreign:
            if let refusal = kind.refusal { throw refusal }
            return bytes
        }
    }

    /// Reads the bytes of one of the images again.
    ///
    /// - Throws: `baseUnreadable` if the image is not one of `images`, or if its file cannot be read or has changed.
    func bytes(of base: BaseImage) throws(EncodingFailure) -> [UInt8] {
        guard files.indices.contains(base.id) else { throw .baseUnreadable(context: "\(base.name) is unknown") }
        let bytes: [UInt8]
        do throws(BaseError) { bytes = try Self.contents(of: files[base.id]) } catch {
            throw .baseUnreadable(context: "\(base.name): \(error.context)")
        }
        guard SHA256.digest(of: bytes) == base.digest else {
            throw .baseUnreadable(
                context: "\(base.name): the file has changed since the push began, so the push continues without it")
        }
        return bytes
    }

    /// Adds an image, unless its file was added before. Returns the id of the image.
    private mutating func add(_ image: BaseImage, _ file: FilePath) -> Int {
        if let id = ids[file] { return id }
        var image = image
        image.id = images.count
        ids[file] = image.id
        images.append(image)
        files.append(file)
        return image.id
    }

    /// Returns the description of a bundle or an image.
    private static func image(at file: FilePath) throws(BaseError) -> BaseImage {
        if let bundle = try bundle(at: file) { return bundle }
        let bytes = try contents(of: file)
        return BaseImage(id: 0, size: bytes.count, digest: SHA256.digest(of: bytes), name: file.string)
    }

    /// Returns the description of the image in a bundle; nil if the file is not a bundle. This function reads only the envelope.
    private static func bundle(at file: FilePath) throws(BaseError) -> BaseImage? {
        do {
            let input = try InputFile(file)
            let start = try input.prefix(Envelope.maximumLength)
            guard FirmwareFileKind.detect(prefix: start) == .bundle else { return nil }
            let envelope = try Envelope(parsingPrefix: start)
            guard input.size == UInt64(envelope.bundleLength) else {
                throw BaseError(context: "it has \(input.size) bytes, expected \(envelope.bundleLength)")
            }
            let manifest = envelope.manifest
            return BaseImage(
                id: 0, size: Int(manifest.imageSize), digest: manifest.imageDigest,
                manifestDigest: SHA256.digest(of: envelope.manifestBytes), product: manifest.product,
                version: manifest.version, name: file.string)
        } catch {
            throw BaseError(error, file)
        }
    }

    private static func contents(of file: FilePath) throws(BaseError) -> [UInt8] {
        do {
            let input = try InputFile(file)
            // Intel HEX text is about three times as long as its image. So the limit for the file is four times the limit for the image.
            guard input.size <= 4 * EncodedImage.maximumSize else {
                throw BaseError(context: "it has \(input.size) bytes; the limit is \(EncodedImage.maximumSize)")
            }
            let image = try image(in: input.prefix(Int(input.size)))
            guard !image.isEmpty, image.count <= EncodedImage.maximumSize else {
                throw BaseError(
                    context: "its image has \(image.count) bytes, expected 1 to \(EncodedImage.maximumSize)")
            }
            return image
        } catch {
            throw BaseError(error, file)
        }
    }

    /// Returns the names of all entries of a folder, in alphabetical order; nil if the path is not a folder or does not exist.
    private static func names(in folder: FilePath) throws(BaseError) -> [String]? {
        guard let stream = opendir(folder.string) else {
            // For a missing path, this function returns nil. The caller then opens the path as a file, and this attempt throws the error.
            guard errno == ENOTDIR || errno == ENOENT else {
                throw BaseError(context: Errno(rawValue: errno).description)
            }
            return nil
        }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            names.append(
                withUnsafePointer(to: &entry.pointee.d_name) { tuple in
                    tuple.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
                })
        }
        return names.filter { $0 != "." && $0 != ".." }.sorted()
    }
}

/// The reason why a file is not used as a base.
private struct BaseError: Error {
    let context: String
    /// True if the path is not a regular file: a folder, a device or a pipe. Inside a folder, such a path causes no note.
    var isFolder = false

    init(context: String) { self.context = context }

    /// - Parameter file: the path of the file. If the description of the error begins with this path, `context` omits the path.
    init(_ error: any Error, _ file: FilePath) {
        switch error {
        case let error as BaseError: self = error
        case SigningError.refused(let code, let context, _):
            // The notes already name the file.
            let name = "\(file): "
            self.context = context.hasPrefix(name) ? String(context.dropFirst(name.count)) : context
            isFolder = code == .notAFile
        case let error as VerificationError: context = error.context
        default: context = "\(error)"
        }
    }
}
