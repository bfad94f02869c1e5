import OTAArchive

extension Failure {
    init(_ error: ZipError, in invocation: Invocation) {
        let file = invocation.file ?? "the archive"
        let hint =
            switch error.code {
            case .truncated: "it is not all there: fetch it again, and compare its length and digest"
            case .malformed, .damaged: "it was damaged, or made to be read in two ways: fetch it again from its source"
            case .unsupported: "pack it anew as a plain zip archive; or unpack it, and give the image in it"
            case .tooLarge: "see that this is the file that was meant: ls -l \(Shell.quoted(file))"
            }
        self.init(
            error.code.rawValue, .malformed, "\(file) is not an archive that can be read: \(error.context)", hint: hint)
    }

    init(_ error: PackageError, in invocation: Invocation) {
        let file = invocation.file ?? "the package"
        let hint =
            switch error.code {
            case .noManifest, .badManifest:
                "give dfu_application.zip of the nRF Connect SDK; or unpack it, and give the image in it"
            case .missingFile, .fileMismatch: "it was put together wrongly: build or fetch it again"
            case .duplicateImage: "unpack it, and give the image for the slot that the device does not run from"
            }
        self.init(
            error.code.rawValue, .malformed, "\(file) is not a package of images: \(error.context)", hint: hint)
    }
}
