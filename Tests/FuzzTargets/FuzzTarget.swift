/// A decoder that meets foreign bytes. The fuzzer (Fuzz/) and the tests that play its corpus enter here.
public enum FuzzTarget: String, CaseIterable, Sendable {
    case bundle
    case keys
    case trustFolder = "trust-folder"
    case images
    case intelHex = "intel-hex"
    case frames
    case session
    case bus
    case objectTree = "object-tree"
    case deviceFile = "device-file"
    case deviceFlash = "device-flash"
    case addresses
    case cbor
    case smpFrames = "smp-frames"
    case smpSession = "smp-session"
    case smpDevice = "smp-device"
    case console
    case zip
    case package

    /// Hands it the bytes. It may refuse them, but neither trap nor hang.
    ///
    /// - Returns: What was not as it must be.
    public func run(_ bytes: [UInt8]) -> String? {
        switch self {
        case .bundle: BundleFuzz.run(bytes)
        case .keys: KeyFuzz.run(bytes)
        case .trustFolder: TrustFolderFuzz.run(bytes)
        case .images: ImageFuzz.run(bytes)
        case .intelHex: IntelHexFuzz.run(bytes)
        case .frames: FrameFuzz.run(bytes)
        case .session: SessionFuzz.run(bytes)
        case .bus: BusFuzz.run(bytes)
        case .objectTree: ObjectTreeFuzz.run(bytes)
        case .deviceFile: DeviceFileFuzz.run(bytes)
        case .deviceFlash: DeviceFlashFuzz.run(bytes)
        case .addresses: AddressFuzz.run(bytes)
        case .cbor: CBORFuzz.run(bytes)
        case .smpFrames: SMPFrameFuzz.run(bytes)
        case .smpSession: SMPSessionFuzz.run(bytes)
        case .smpDevice: SMPDeviceFuzz.run(bytes)
        case .console: ConsoleFuzz.run(bytes)
        case .zip: ZipFuzz.run(bytes)
        case .package: PackageFuzz.run(bytes)
        }
    }
}
