/// The reason why an archive is not a valid update package. Two errors are equal if their codes are equal.
public struct PackageError: Error, Sendable, Equatable {
    public enum Code: String, Sendable, CaseIterable {
        case noManifest = "no-package-manifest"
        case badManifest = "bad-package-manifest"
        /// A file that the manifest lists is missing.
        case missingFile = "missing-package-file"
        /// The size or version of a file differs from the manifest, or from the init packet of a Nordic DFU package.
        case fileMismatch = "package-file-mismatch"
        /// Several files have the same image number.
        case duplicateImage = "duplicate-image"
        /// An init packet of a Nordic DFU package is malformed.
        case badInitPacket = "bad-init-packet"
        /// The name of an entry of a Nordic DFU package could select a file outside the folder of a program that unpacks the package.
        case unsafeName = "unsafe-package-name"
        /// otaflash can inspect, verify and sign the package, but cannot send it to a device.
        case notPushed = "package-not-pushed"
    }

    public let code: Code
    /// The description of the error for the user, without a full stop.
    public let context: String
    /// The advice for the user; nil: there is no advice for this error.
    public let hint: String?

    package init(_ code: Code, _ context: String, hint: String? = nil) {
        self.code = code
        self.context = context
        self.hint = hint
    }

    public static func == (left: PackageError, right: PackageError) -> Bool { left.code == right.code }
}
