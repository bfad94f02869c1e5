import BlueZ
import OTAArchive
import OTAClient
import OTAFirmware
import OTASigning
import OTASimulator
import OTATransport
import OTAUpdate

extension Failure {
    /// Converts the error of a command.
    package init(_ error: any Error, in invocation: Invocation) {
        switch error {
        case let failure as Failure: self = failure
        case let error as UpdateError: self.init(error, in: invocation)
        case let error as BundleError: self.init(error, in: invocation)
        case let error as ImageError: self.init(error, in: invocation)
        case let error as ZipError: self.init(error, in: invocation)
        case let error as PackagedImageError:
            self.init(error.cause, in: Invocation(command: "inspect", file: error.file))
        case let error as PackageError: self.init(error, in: invocation)
        case let error as IntelHexError: self.init(error, in: invocation)
        case let error as KeyError: self.init(error, in: invocation)
        case let error as VerificationError: self.init(error, in: invocation)
        case let error as SigningError: self.init(error, in: invocation)
        case let error as VirtualDeviceError: self.init(error, in: invocation)
        case let error as AddressError: self = .usage(error.context, hint: error.hint)
        case let error as ClientError: self.init(error)
        case let error as BlueZError: self.init(error, in: invocation)
        default:
            self.init(
                "internal", .fault, "internal error in otaflash: \(error)",
                hint: "report this bug with the output of: \(invocation.line(adding: "--verbose"))")
        }
    }
}
