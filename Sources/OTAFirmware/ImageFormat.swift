/// What kind of image a bundle carries: the byte at offset 5 of its manifest.
public enum ImageFormat: UInt8, Sendable, CaseIterable {
    case raw = 0
    /// An ESP-IDF application image.
    case espressif = 1
    case mcuboot = 2

    /// What it is called in output: `raw`, `esp-idf`, `mcuboot`.
    public var name: String {
        switch self {
        case .raw: "raw"
        case .espressif: "esp-idf"
        case .mcuboot: "mcuboot"
        }
    }
}
