import OTAArchive
import OTAClient
import OTAFirmware

// MARK: - Bundles

extension Failure {
    /// Creates the failure for a parse error of a bundle.
    init(_ error: BundleError, in invocation: Invocation) {
        let file = invocation.title(or: "the bundle")
        let problem =
            error.code == .unsignedManifest
            ? "a manifest without signatures, as sign --to-sign writes it" : "not a valid bundle: \(error.description)"
        self.init(
            error.code.rawValue, .malformed, "\(file) is \(problem)",
            hint: Self.advice(for: error.code, invocation.file))
        if error.code == .badMagic, invocation.command == "push" {
            hints.append(
                "for a device that uses SMP, sign the binary as an MCUboot image: "
                    + "otaflash sign --as mcuboot \(Shell.quoted(invocation.file ?? "APP.bin")) --key KEY.pem --version X.Y.Z "
                    + "--header-size 0x200 (with --pad-header if the build left no room for the header)"
            )
        }
    }

    /// - Parameter path: the file of the command; nil if the command has none.
    private static func advice(for code: BundleError.Code, _ path: String?) -> String {
        let name = path.flatMap { $0 == StandardFile.name ? nil : Shell.quoted($0) } ?? "FILE"
        return switch code {
        case .truncated: "the file is incomplete: fetch it again, and compare its length and digest"
        case .trailingBytes: "the file has extra bytes: fetch it again, and compare its length and digest"
        case .badMagic: "create a bundle from an image: otaflash sign IMAGE --key KEY --product P --version V"
        case .unsupportedVersion, .unsupportedImageFormat:
            "sign the image again with this otaflash, or use a newer otaflash; this is version \(Version.number)"
        case .badVersion, .missingVersion: "sign the image again with a version, such as --version 1.4.0"
        case .badProduct, .missingProduct: "sign the image again with a product, such as --product acme-thermostat"
        case .badHardware: "sign the image again with hardware revisions, such as --hardware 2 or --hardware 1..3,7"
        case .badMinimumBattery: "give a battery level of 0 to 100 per cent, such as --minimum-battery 30"
        case .badSource: "give a source of 1 to 127 bytes without control characters, such as --source v1.4.0"
        case .badRequiredVersion: "give the required version as three numbers, such as --requires 1.2.0"
        case .badCreationTime: "set SOURCE_DATE_EPOCH to Unix seconds, or unset it"
        case .badSignatureCount:
            "a bundle has at most \(Envelope.maximumSignatures) signatures: sign the image again with the keys that are needed"
        case .unsignedManifest:
            "show it: otaflash inspect \(name); or attach its signatures: otaflash sign IMAGE --manifest "
                + "\(name) --signature FILE.sig --public-key KEY.pub.pem"
        case .signatureOrder: "a key signs a bundle only once: omit the key that has already signed it"
        case .badManifestLength, .badImageSize, .badSignatureLength, .notZero, .fieldOverrun, .fieldOrder:
            "the file is damaged, or otaflash sign did not create it: create or fetch it again"
        }
    }
}

// MARK: - Images

extension Failure {
    /// Creates the failure for a parse error of a firmware image.
    init(_ error: ImageError, in invocation: Invocation) {
        let file = invocation.title(or: "the image")
        self.init(
            error.code.rawValue, .malformed, "\(file) is not a valid image: \(error.description)",
            hint: error.hint ?? Self.advice(for: error.code))
        guard invocation.command == Sign.name else { return }
        switch error.code {
        case .notAnImage: hints.append("if the device requires exactly these bytes, add --raw")
        // The formats are recognised by a few bytes, which an image of another format can begin with, too.
        case .truncatedImage, .badImageHeader, .badImageDigest, .trailingImageBytes:
            hints.append("if the image has another format, and the device requires exactly these bytes, add --raw")
        case .emptyImage, .imageTooLarge, .wrongImageFormat: break
        }
    }

    private static func advice(for code: ImageError.Code) -> String {
        switch code {
        case .emptyImage: "the build may have failed: build the image again"
        case .imageTooLarge: "an image is smaller than 4 GiB: check that this is the intended file"
        case .notAnImage: "give the binary that the device boots"
        case .wrongImageFormat: "show the type of the file: otaflash inspect IMAGE"
        case .truncatedImage, .badImageHeader, .badImageDigest, .trailingImageBytes:
            "the file is damaged or incomplete: build or fetch it again"
        }
    }
}

// MARK: - Hex text

extension Failure {
    /// Creates the failure for a parse error of a hex text.
    init(_ error: HexError, in invocation: Invocation) {
        let file = invocation.title(or: "the image")
        self.init(
            error.code.rawValue, .malformed,
            "\(file) is not a valid \(error.format.name) file of one image: \(error.description)",
            hint: error.hint ?? Self.advice(for: error.code, error.format))
    }

    private static func advice(for code: HexError.Code, _ format: HexFormat) -> String {
        switch code {
        case .badRecord, .badChecksum, .missingEnd, .recordAfterEnd, .wrongRecordCount:
            "the file is damaged or incomplete: build or fetch it again"
        case .unknownRecordType, .badAddress, .overlappingData, .noData, .spanTooLarge:
            "convert the file to a binary: objcopy -I \(format.objcopyName) -O binary app.hex app.bin"
        }
    }
}

// MARK: - Archives and packages

extension Failure {
    /// Creates the failure for a parse error of a zip archive.
    init(_ error: ZipError, in invocation: Invocation) {
        let file = invocation.title(or: "the archive")
        let hint =
            switch error.code {
            case .truncated: "the file is incomplete: fetch it again, and compare its length and digest"
            case .malformed, .damaged:
                "the file is damaged, or two programs could read different contents: fetch it again"
            case .unsupported: "create it again as a plain zip archive; or unpack it, and give the image in it"
            case .tooLarge: StandardFile.hint("check that this is the intended file", for: invocation.file ?? "FILE")
            }
        self.init(
            error.code.rawValue, .malformed, "\(file) is not a valid archive: \(error.context)", hint: hint)
    }

    /// Creates the failure for invalid contents of an update package.
    init(_ error: PackageError, in invocation: Invocation) {
        let file = invocation.title(or: "the package")
        let hint =
            switch error.code {
            case .noManifest:
                "give dfu_application.zip from the nRF Connect SDK; or unpack the archive, and give the image in it"
            case .badManifest, .unsafeName:
                "create the package again with the build of the nRF Connect SDK, nrfutil or adafruit-nrfutil, and add no file to it"
            case .missingFile, .fileMismatch: "the package is inconsistent: build or fetch it again"
            case .badInitPacket: "create the package again with nrfutil or adafruit-nrfutil"
            case .notPushed: "verify it (otaflash verify --help)"
            case .duplicateImage:
                "unpack the package, and give the image for the slot that the device does not run from"
            }
        let isValid = error.code == .notPushed
        let problem = isValid ? "cannot be pushed" : "is not a valid package"
        self.init(
            error.code.rawValue, isValid ? .refused : .malformed, "\(file) \(problem): \(error.context)",
            hint: error.hint ?? hint)
    }
}
