import OTAClient
import OTASimulator
import SystemPackage

// MARK: - State folder and locks

extension Failure {
    /// Creates the failure for an error on this computer, such as an invalid state folder.
    init(_ error: ClientError) {
        switch error.code {
        case .invalidStateFolder:
            self = .usage(
                error.context, hint: Shell.export("OTAFLASH_STATE_DIR", error.path.map { [$0] } ?? []))
        case .cannotCreate where error.path != nil && error.path == Environment.runtimeFolder:
            self.init(
                "cannot-create", .cannotCreate, error.context,
                hint: "unset XDG_RUNTIME_DIR, or set it to a folder that belongs to this user")
        case .cannotCreate:
            self.init(
                "cannot-create", .cannotCreate, error.context,
                hint: "set OTAFLASH_STATE_DIR to a folder that this user can write, such as /var/lib/otaflash")
        case .foreignLock:
            let path = Shell.quoted(error.path?.string ?? "FILE")
            self.init(
                "cannot-create", .cannotCreate, error.context,
                hint: "show the file: ls -l \(path); then remove it, or set OTAFLASH_STATE_DIR to your own folder")
        case .deviceInUse:
            let stop = error.process.map { ", or stop it: kill \($0)" } ?? ""
            self.init("device-in-use", .linkLost, error.context, hint: "wait until it has ended\(stop)")
        }
    }
}

// MARK: - Virtual devices

extension Failure {
    /// Creates the failure for an error of a virtual device.
    init(_ error: VirtualDeviceError, in invocation: Invocation) {
        let (exit, hint) = Self.advice(for: error.code, in: invocation)
        self.init(error.code.rawValue, exit, error.context.isEmpty ? error.code.rawValue : error.context, hint: hint)
    }

    private static func advice(
        for code: VirtualDeviceError.Code, in invocation: Invocation
    ) -> (ExitStatus, hint: String) {
        let name = Shell.quoted(invocation.virtualDevice ?? "NAME")
        let create = "otaflash simulate create \(name) --product P --version V --trust KEY.pub.pem"
        let remove = "otaflash simulate remove \(name)"
        switch code {
        case .badAddress where invocation.command.hasPrefix("simulate "):
            return (.usage, "give only the name, without parameters, such as kitchen")
        case .badAddress:
            return (
                .usage,
                "use sim:NAME or, with options, 'sim:NAME?drop-at=0.4&pace=virtual'; the quotes are needed because of ? and &"
            )
        case .badConfiguration: return (.usage, "show the options of a virtual device: otaflash simulate create --help")
        case .exists: return (.cannotCreate, "choose another name, or first remove the device: \(remove)")
        case .folderExists:
            return (.cannotCreate, "choose another name for the device; or move the folder or its other files away")
        case .noSuchDevice:
            return (
                .unavailable,
                "list the virtual devices: otaflash simulate list; or create one: \(create); or push to sim:, which creates 'demo'"
            )
        case .malformed:
            return (.malformed, "the stored device is damaged; create it again: \(remove), then \(create)")
        case .fromNewerVersion:
            return (.malformed, "use the otaflash version that created the device; this is version \(Version.number)")
        case .io:
            return (
                .inputOutput,
                "check that its folder is writable, that the disk has free space: df, and the maximum size of a file: ulimit -f"
            )
        }
    }
}
