import OTASimulator

extension Failure {
    init(_ error: VirtualDeviceError, in invocation: Invocation) {
        let (exit, hint) = Self.advice(for: error.code, in: invocation)
        self.init(error.code.rawValue, exit, error.context.isEmpty ? error.code.rawValue : error.context, hint: hint)
    }

    private static func advice(
        for code: VirtualDeviceError.Code, in invocation: Invocation
    ) -> (ExitStatus, hint: String) {
        let create = "otaflash simulate create NAME --product P --version V"
        let remove = "otaflash simulate remove \(Shell.quoted(invocation.virtualDevice ?? "NAME"))"
        switch code {
        case .badAddress:
            return (
                .usage,
                "an address is like sim:NAME or 'sim:NAME?drop-at=0.4&pace=virtual', in quotes because of ? and &"
            )
        case .badConfiguration: return (.usage, "see what can be said of a device: otaflash simulate create --help")
        case .exists: return (.cannotCreate, "choose another name, or remove it first: \(remove)")
        case .noSuchDevice:
            return (
                .unavailable,
                "see which there are: otaflash simulate list; make one: \(create); plain sim: is made by the first push"
            )
        case .malformed:
            return (.malformed, "it was damaged; make it anew: \(remove), then \(create)")
        case .fromNewerVersion: return (.malformed, "use the otaflash that made it; this is \(Version.number)")
        case .io: return (.inputOutput, "see that its folder can be written to, and that the disk has room: df")
        }
    }
}
