import OTAFirmware
import OTASigning

/// What a file holds that a device can be updated with: read, and not trusted.
enum UpdateFile: Sendable {
    case bundle(SignedBundle)
    /// One MCUboot image, or those of a package. There is at least one, and no two have one number.
    case images([NumberedFile])

    /// Sees from the bytes what they are: a bundle, an MCUboot image, Intel HEX text of one, or a package of several.
    ///
    /// - Throws: `BundleError` for what is none of them; `ImageError`, `IntelHexError`, `ZipError`, `PackageError`.
    init(parsing bytes: [UInt8]) throws {
        switch FirmwareFileKind.detect(prefix: bytes) {
        case .zip: self = .images(try ImagePackage.images(in: bytes))
        case .intelHex: try self.init(image: IntelHex(parsing: bytes).bytes)
        case .bundle, .binary, .elf, .uf2, .pem: try self.init(image: bytes)
        }
    }

    private init(image bytes: [UInt8]) throws {
        if bytes.starts(with: MCUbootImage.magic) {
            self = .images([NumberedFile(number: 0, file: try MCUbootFile(parsing: bytes))])
        } else {
            self = .bundle(try SignedBundle(parsing: bytes))
        }
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
                    do throws(VerificationError) {
                        return NumberedImage(number: entry.number, image: try image(entry.file))
                    } catch {
                        throw entry.named(error)
                    }
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
package struct NumberedFile: Sendable {
    package let number: UInt32
    /// Its name in a package.
    package var name: String?
    /// What the package says that it is for; nobody signs that.
    var board: String?
    let file: MCUbootFile

    /// The same error, which says of which file of a package it speaks.
    func named(_ error: VerificationError) -> VerificationError {
        name.map { VerificationError(error.code, "\($0): \(error.context)") } ?? error
    }
}

/// The same, verified.
struct NumberedImage: Sendable {
    let number: UInt32
    let image: VerifiedImage
}
