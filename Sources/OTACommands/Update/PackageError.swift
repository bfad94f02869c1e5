import OTAFirmware

/// Why an archive is no package of MCUboot images. Two errors are equal when their codes are.
package struct PackageError: Error, Sendable, Equatable {
    package enum Code: String, Sendable, CaseIterable {
        case noManifest = "no-package-manifest"
        case badManifest = "bad-package-manifest"
        /// A file that the manifest names is not there.
        case missingFile = "missing-package-file"
        /// A file is not what the manifest says of it.
        case fileMismatch = "package-file-mismatch"
        /// Two files are for one of the device's images.
        case duplicateImage = "duplicate-image"
    }

    package let code: Code
    /// For people: what was seen, without a full stop.
    package let context: String

    package init(_ code: Code, _ context: String) {
        self.code = code
        self.context = context
    }

    package static func == (left: PackageError, right: PackageError) -> Bool { left.code == right.code }
}
