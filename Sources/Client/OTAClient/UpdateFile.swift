public import OTAFirmware
public import OTASigning

/// The parsed contents of an update file before verification.
public enum UpdateFile: Sendable {
    case bundle(SignedBundle)
    /// One MCUboot image, or all images of a package. The array is not empty, and the image numbers are unique.
    case images([NumberedFile])

    /// Detects the format from the bytes and parses a bundle, an MCUboot image, an Intel HEX file of an image, or a package.
    ///
    /// - Throws: `BundleError` for an invalid bundle or an unknown format. `ImageError` for an invalid MCUboot image, and for a file that
    ///   cannot be an update file: a key, an ELF file, a UF2 file, or an ESP-IDF image. `HexError` for an invalid Intel HEX file.
    ///   `ZipError`, `PackageError` or `PackagedImageError` for an invalid package. `package-not-pushed` for a Nordic DFU package, which
    ///   otaflash cannot send to a device.
    public init(parsing bytes: [UInt8]) throws {
        let kind = FirmwareFileKind.detect(file: bytes)
        switch kind {
        case .zip:
            if let package = try NordicArchive.package(in: bytes) { throw PackageError.notPushed(package) }
            self = .images(try ImagePackage.images(in: bytes))
        case .hexText(let format): try self.init(image: HexImage(parsing: bytes, as: format).bytes)
        case .elf, .uf2, .pem, .foreign:
            if let refusal = kind.refusal { throw refusal }
            try self.init(image: bytes)
        case .bundle, .binary: try self.init(image: bytes)
        }
    }

    private init(image bytes: [UInt8]) throws {
        if bytes.starts(with: MCUbootImage.magic) {
            self = .images([NumberedFile(number: 0, file: try MCUbootFile(parsing: bytes))])
        } else if let refusal = EspressifImage.unsignedRefusal(of: bytes) {
            throw refusal
        } else {
            self = .bundle(try SignedBundle(parsing: bytes))
        }
    }

    /// Verifies the signatures and digests of the file.
    public func verified(by verifier: Verifier) throws(VerificationError) -> VerifiedUpdate {
        try accepted(verifier.verify, verifier.verify)
    }

    /// Verifies the file for the option `--unverified-image`. An MCUboot image is accepted even if no trusted key has signed it. A bundle
    /// must be signed by a trusted key, as in `verified(by:)`.
    public func acceptedUnverified(by verifier: Verifier) throws(VerificationError) -> VerifiedUpdate {
        try accepted(verifier.verify, verifier.accept)
    }

    private func accepted(
        _ bundle: (SignedBundle) throws(VerificationError) -> VerifiedBundle,
        _ image: (MCUbootFile) throws(VerificationError) -> VerifiedImage
    ) throws(VerificationError) -> VerifiedUpdate {
        switch self {
        case .bundle(let signed): return .bundle(try bundle(signed))
        case .images(let files):
            return .images(
                try files.map { (entry) throws(VerificationError) in
                    do throws(VerificationError) {
                        return NumberedImage(number: entry.number, image: try image(entry.file))
                    } catch {
                        throw entry.named(error)
                    }
                })
        }
    }
}

/// An MCUboot image, and the number of the device's image that this image replaces. The number is 0 if the device has one image.
public struct NumberedFile: Sendable {
    public let number: UInt32
    /// The name of the file in its package; nil: the file is not from a package.
    public let name: String?
    /// The board name in the package's manifest, which is not signed; nil: the manifest lists no board.
    public let board: String?
    public let file: MCUbootFile

    init(number: UInt32, name: String? = nil, board: String? = nil, file: MCUbootFile) {
        self.number = number
        self.name = name
        self.board = board
        self.file = file
    }

    /// Adds the name of this file to the message of an error.
    func named(_ error: VerificationError) -> VerificationError {
        name.map { VerificationError(error.code, "\($0): \(error.context)") } ?? error
    }
}
