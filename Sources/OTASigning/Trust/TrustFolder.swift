internal import Glibc
internal import SystemPackage

/// Lists the key files in a folder of trusted keys.
enum TrustFolder {
    private static let suffix = ".pub.pem"

    /// Returns the names of the key files (`*.pub.pem`), sorted.
    ///
    /// - Throws: `read-failed`; `bad-trust-scope` for a scope file without a key file, because its name may be misspelt.
    static func keyFiles(in folder: FilePath) throws(KeyError) -> [String] {
        guard let stream = opendir(folder.string) else {
            throw KeyError(.readFailed, "\(folder): \(Errno(rawValue: errno))")
        }
        defer { closedir(stream) }
        var names: [String] = []
        var scopes: [String] = []
        while true {
            errno = 0
            guard let entry = readdir(stream) else { break }
            let name = withUnsafePointer(to: &entry.pointee.d_name) { tuple in
                tuple.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name.hasSuffix(suffix) { names.append(name) }
            if name.hasSuffix(TrustScope.suffix) { scopes.append(name) }
        }
        guard errno == 0 else { throw KeyError(.readFailed, "\(folder): \(Errno(rawValue: errno))") }
        if let orphan = scopes.sorted().first(where: { !names.contains(String($0.dropLast(TrustScope.suffix.count))) })
        {
            throw KeyError(
                .badTrustScope, "\(folder.appending(orphan)): there is no key file beside it",
                hint: "name it after the key's file: KEY\(suffix)\(TrustScope.suffix)")
        }
        return names.sorted()
    }
}
