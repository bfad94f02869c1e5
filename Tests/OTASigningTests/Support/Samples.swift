import SystemPackage

/// The repository's files that tests read.
enum Repository {
    private static let root = FilePath(#filePath).removingLastComponent().appending("../../..").lexicallyNormalized()

    static let keys = root.appending("keys")
    static let samples = root.appending("firmware-samples")

    /// A file of firmware-samples/: an image as a real tool made it.
    static func sample(_ name: String) throws -> [UInt8] {
        try contents(of: samples.appending(name))
    }
}
