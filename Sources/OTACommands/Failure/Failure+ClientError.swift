import OTAClient
import SystemPackage

extension Failure {
    /// Converts an error of the client library on this computer.
    init(_ error: ClientError) {
        switch error.code {
        case .invalidStateFolder:
            self = .usage(
                error.context, hint: Shell.export("OTAFLASH_STATE_DIR", error.path.map { [$0] } ?? []))
        case .cannotCreate:
            self.init(
                "cannot-create", .cannotCreate, error.context, hint: "set OTAFLASH_STATE_DIR to a writable folder")
        case .foreignLock:
            let path = Shell.quoted(error.path?.string ?? "FILE")
            self.init(
                "cannot-create", .cannotCreate, error.context,
                hint: "show the file: ls -l \(path); then remove it, or set OTAFLASH_STATE_DIR to your own folder")
        case .deviceInUse:
            let stop = error.process.map { ", or stop it: kill \($0)" } ?? ""
            self.init("device-in-use", .unavailable, error.context, hint: "wait until it has ended\(stop)")
        }
    }
}
