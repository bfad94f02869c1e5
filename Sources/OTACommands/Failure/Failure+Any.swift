import BlueZ
import OTAArchive
import OTAFirmware
import OTASigning
import OTASimulator
import OTAUpdate

extension Failure {
    /// Any error that a command ends with.
    package init(_ error: any Error, in invocation: Invocation) {
        switch error {
        case let failure as Failure: self = failure
        case let error as UpdateError: self.init(error, in: invocation)
        case let error as BundleError: self.init(error, in: invocation)
        case let error as ImageError: self.init(error, in: invocation)
        case let error as ZipError: self.init(error, in: invocation)
        case let error as PackageError: self.init(error, in: invocation)
        case let error as IntelHexError: self.init(error, in: invocation)
        case let error as KeyError: self.init(error, in: invocation)
        case let error as VerificationError: self.init(error, in: invocation)
        case let error as SigningError: self.init(error, in: invocation)
        case let error as VirtualDeviceError: self.init(error, in: invocation)
        case let error as BlueZError: self.init(error, in: invocation)
        default:
            self.init(
                "internal", .fault, "a fault of otaflash: \(error)",
                hint: "please report it, with what this prints: \(invocation.line(adding: "--verbose"))")
        }
    }
}
