import OTAFirmware

/// The reason why an archive is not a valid package of MCUboot images. Errors are equal if their codes are.
package struct PackageError: Error, Sendable, Equatable {
    package enum Code: String, Sendable, CaseIterable {
        case noManifest = "no-package-manifest"
        case badManifest = "bad-package-manifest"
        /// A file that the manifest lists is missing.
        case missingFile = "missing-package-file"
        /// The size or version of a file differs from the manifest.
        case fileMismatch = "package-file-mismatch"
        /// Several files have the same image number.
        case duplicateImage = "duplicate-image"
    }

    package let code: Code
    /// The description for people, without a full stop.
    package let context: String

    package init(_ code: Code, _ context: String) {
        self.code = code
        self.context = context
    }

    package static func == (left: PackageError, right: PackageError) -> Bool { left.code == right.code }
}
