import OTAArchive
import OTAClient

extension Failure {
    /// Converts a parse error of a zip archive.
    init(_ error: ZipError, in invocation: Invocation) {
        let file = invocation.file ?? "the archive"
        let hint =
            switch error.code {
            case .truncated: "the file is incomplete: fetch it again, and compare its length and digest"
            case .malformed, .damaged:
                "the file is damaged, or two programs could read different contents: fetch it again"
            case .unsupported: "create it again as a plain zip archive; or unpack it, and give the image in it"
            case .tooLarge: "check that this is the intended file: ls -l \(Shell.quoted(file))"
            }
        self.init(
            error.code.rawValue, .malformed, "\(file) is not a valid archive: \(error.context)", hint: hint)
    }

    /// Converts an error in the contents of an update package.
    init(_ error: PackageError, in invocation: Invocation) {
        let file = invocation.file ?? "the package"
        let hint =
            switch error.code {
            case .noManifest, .badManifest:
                "give dfu_application.zip from the nRF Connect SDK; or unpack the archive, and give the image in it"
            case .missingFile, .fileMismatch: "the package is inconsistent: build or fetch it again"
            case .duplicateImage:
                "unpack the package, and give the image for the slot that the device does not run from"
            }
        self.init(
            error.code.rawValue, .malformed, "\(file) is not a valid package of images: \(error.context)", hint: hint)
    }
}
