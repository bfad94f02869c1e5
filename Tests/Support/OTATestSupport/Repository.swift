public import SystemPackage

/// The files of this repository that tests read.
public enum Repository {
    public static let root = FilePath(#filePath).removingLastComponent().appending("../../..").lexicallyNormalized()
    public static let keys = root.appending("keys")
    public static let samples = root.appending("firmware-samples")

    /// Returns the bytes of a file of firmware-samples/: an image that a real tool created.
    public static func sample(_ name: String) throws -> [UInt8] {
        try contents(of: samples.appending(name))
    }

    public static func contents(of path: FilePath) throws -> [UInt8] {
        let file = try FileDescriptor.open(path, .readOnly)
        return try file.closeAfter {
            let size = Int(try file.seek(offset: 0, from: .end))
            return try [UInt8](unsafeUninitializedCapacity: size) {
                $1 = try file.read(fromAbsoluteOffset: 0, into: UnsafeMutableRawBufferPointer($0))
            }
        }
    }
}
