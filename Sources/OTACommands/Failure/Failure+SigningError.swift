import OTASigning

extension Failure {
    /// Converts an error of `sign`.
    init(_ error: SigningError, in invocation: Invocation) {
        switch error {
        case .image(let error): self.init(error, in: invocation)
        case .intelHex(let error): self.init(error, in: invocation)
        case .bundle(let error): self.init(error, in: invocation)
        case .key(let error): self.init(error, in: invocation)
        case .refused(let code, let context, let hint):
            let (exit, advice) = Self.advice(for: code, in: invocation)
            self.init(code.rawValue, exit, context.isEmpty ? code.rawValue : context, hint: hint ?? advice)
        }
    }

    private static func advice(for code: SigningError.Code, in invocation: Invocation) -> (ExitStatus, hint: String) {
        let path = Shell.quoted(invocation.file ?? "IMAGE")
        let inspect = Invocation(command: "inspect", file: invocation.file ?? "IMAGE").line()
        switch code {
        case .noSuchFile: return (.noInput, "check the path: ls -l \(path)")
        case .notAFile: return (.noInput, "give a file, not a folder or a pipe")
        case .readFailed: return (.inputOutput, "check the read permission: ls -l \(path)")
        case .emptyImage: return (.malformed, "the build may have failed: build the image again")
        case .imageTooLarge: return (.malformed, "check that this is the intended file: ls -l \(path)")
        case .imageChanged: return (.inputOutput, "sign the image after the build has ended")
        case .productRequired: return (.usage, "give --product NAME, such as --product acme-thermostat")
        case .versionRequired: return (.usage, "give --version X.Y.Z, such as --version 1.4.0")
        case .productMismatch, .versionMismatch:
            return (.malformed, "omit the option to use the value in the image: \(inspect)")
        case .alreadyABundle:
            return (.usage, "give only --key to add a signature; or give the image from which the bundle was created")
        case .malformedBundle: return (.malformed, "the file is incomplete or has extra bytes: fetch it again")
        case .digestMismatch: return (.refused, "do not sign this bundle: its image was changed or damaged")
        case .unknownCriticalField:
            return (.refused, "the bundle requires a newer otaflash; this is version \(Version.number)")
        case .alreadyAnImage:
            return (.usage, "give the linked program without a header; or omit --as to sign the image into a bundle")
        case .headerNotEmpty:
            return (.malformed, "use --pad-header to insert the header before the program; see --header-size")
        case .slotTooSmall:
            return (.malformed, "check --slot-size, --align and --max-sectors; or make the program smaller")
        case .keyRequired: return (.usage, "give --key FILE; to create a key: otaflash keygen NAME")
        case .alreadySigned: return (.usage, "omit the key that has already signed: \(inspect)")
        case .tooManySignatures: return (.refused, "sign the image again with the keys that are needed")
        case .outputExists: return (.cannotCreate, "use --force to replace the file, or -o to write another file")
        case .cannotCreate: return (.cannotCreate, "check that the folder exists and is writable")
        case .writeFailed: return (.inputOutput, "check that the disk has free space: df")
        }
    }
}
