import OTASigning

extension Failure {
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
        case .noSuchFile: return (.noInput, "see that the path is right: ls -l \(path)")
        case .notAFile: return (.noInput, "give a file, not a folder or a pipe")
        case .readFailed: return (.inputOutput, "see who may read it: ls -l \(path)")
        case .emptyImage: return (.malformed, "the build may have failed: make the image again")
        case .imageTooLarge: return (.malformed, "see that this is the file that was meant: ls -l \(path)")
        case .imageChanged: return (.inputOutput, "sign it when the build has ended")
        case .productRequired: return (.usage, "give --product NAME, such as --product acme-thermostat")
        case .versionRequired: return (.usage, "give --version X.Y.Z, such as --version 1.4.0")
        case .productMismatch, .versionMismatch:
            return (.malformed, "leave the option out to take what the image says: \(inspect)")
        case .alreadyABundle:
            return (.usage, "give --key alone to add a signature, or the image that the bundle was made of")
        case .malformedBundle: return (.malformed, "it was cut off, or something was added to it: fetch it again")
        case .digestMismatch: return (.refused, "do not sign it: its image was changed or damaged")
        case .unknownCriticalField:
            return (.refused, "it is from a later release of otaflash; this is \(Version.number)")
        case .alreadyAnImage:
            return (.usage, "give the program itself, as it was linked; or sign the image into a bundle, without --as")
        case .headerNotEmpty: return (.malformed, "--pad-header puts the header in front; see --header-size")
        case .slotTooSmall:
            return (.malformed, "see --slot-size, --align and --max-sectors; or make the program smaller")
        case .keyRequired: return (.usage, "give --key FILE; a key is made by: otaflash keygen NAME")
        case .alreadySigned: return (.usage, "leave out the key that has signed already: \(inspect)")
        case .tooManySignatures: return (.refused, "sign the image anew with the keys that are needed")
        case .outputExists: return (.cannotCreate, "--force replaces it; -o writes elsewhere")
        case .cannotCreate: return (.cannotCreate, "see that the folder exists and can be written to")
        case .writeFailed: return (.inputOutput, "see that the disk has room: df")
        }
    }
}
