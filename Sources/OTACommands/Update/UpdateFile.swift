import OTAFirmware
import OTASigning

/// What a file holds that a device can be updated with: read, and not trusted.
enum UpdateFile: Sendable {
    case bundle(SignedBundle)
    /// One MCUboot image, or those of a package. There is at least one, and no two have one number.
    case images([NumberedFile])

    /// Sees from the bytes what they are: a bundle, an MCUboot image, or Intel HEX text of one.
    ///
    /// - Throws: `BundleError`, `ImageError`, `IntelHexError`.
    init(parsing bytes: [UInt8]) throws {
        switch FirmwareFileKind.detect(prefix: bytes) {
        case .bundle: self = .bundle(try SignedBundle(parsing: bytes))
        case .intelHex: self = try .image(IntelHex(parsing: bytes).bytes)
        case .binary, .elf, .uf2, .zip: self = try .image(bytes)
        }
    }

    private static func image(_ bytes: [UInt8]) throws(ImageError) -> UpdateFile {
        .images([NumberedFile(number: 0, file: try MCUbootFile(parsing: bytes))])
    }

    /// What the verifier vouches for.
    func verified(by verifier: Verifier) throws(VerificationError) -> VerifiedUpdate {
        try accepted(verifier.verify, verifier.verify)
    }

    /// The same, or what the user consents to: images that no trusted key has signed are taken as well. A bundle is
    /// verified as ever.
    func acceptedUnverified(by verifier: Verifier) throws(VerificationError) -> VerifiedUpdate {
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
                    NumberedImage(number: entry.number, image: try image(entry.file))
                })
        }
    }
}

/// What may be sent.
enum VerifiedUpdate: Sendable {
    case bundle(VerifiedBundle)
    /// At least one.
    case images([NumberedImage])
}

/// An MCUboot image and which of the device's images it replaces: 0 where the device has one.
struct NumberedFile: Sendable {
    let number: UInt32
    /// Its name in a package.
    var name: String?
    let file: MCUbootFile
}

/// The same, verified.
struct NumberedImage: Sendable {
    let number: UInt32
    let image: VerifiedImage
}
