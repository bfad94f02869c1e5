internal import Glibc
internal import SystemPackage

/// A folder of trusted keys.
enum TrustFolder {
    private static let suffix = ".pub.pem"

    /// The names that count, sorted.
    static func keyFiles(in folder: FilePath) throws(KeyError) -> [String] {
        guard let stream = opendir(folder.string) else {
            throw KeyError(.readFailed, "\(folder): \(Errno(rawValue: errno))")
        }
        defer { closedir(stream) }
        var names: [String] = []
        while true {
            errno = 0
            guard let entry = readdir(stream) else { break }
            let name = withUnsafePointer(to: &entry.pointee.d_name) { tuple in
                tuple.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name.hasSuffix(suffix) { names.append(name) }
        }
        guard errno == 0 else { throw KeyError(.readFailed, "\(folder): \(Errno(rawValue: errno))") }
        return names.sorted()
    }
}
