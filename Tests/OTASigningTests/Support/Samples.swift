import SystemPackage

/// The repository's files that tests read.
enum Repository {
    private static let root = FilePath(#filePath).removingLastComponent().appending("../../..").lexicallyNormalized()

    static let keys = root.appending("keys")

    /// A file of firmware-samples/: an image as a real tool made it.
    static func sample(_ name: String) throws -> [UInt8] {
        try contents(of: root.appending("firmware-samples").appending(name))
    }
}
