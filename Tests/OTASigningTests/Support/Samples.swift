import SystemPackage

/// The files of the repository that the tests read.
enum Repository {
    private static let root = FilePath(#filePath).removingLastComponent().appending("../../..").lexicallyNormalized()

    static let keys = root.appending("keys")
    static let samples = root.appending("firmware-samples")

    /// Returns a file of firmware-samples/: an image that a real tool created.
    static func sample(_ name: String) throws -> [UInt8] {
        try contents(of: samples.appending(name))
    }
}
