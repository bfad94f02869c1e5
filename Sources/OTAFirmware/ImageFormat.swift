/// What kind of image a bundle carries: the byte at offset 5 of its manifest.
public enum ImageFormat: UInt8, Sendable, CaseIterable {
    case raw = 0
    /// An ESP-IDF application image.
    case espressif = 1
    case mcuboot = 2
}
