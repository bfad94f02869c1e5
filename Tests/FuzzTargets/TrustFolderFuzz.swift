import Glibc
import OTASigning
import SystemPackage

/// A trust folder whose files are the input's parts, each of them behind a byte that says what it is called.
enum TrustFolderFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        var template = Array("/tmp/otaflash-fuzz-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { return nil }
        let folder = FilePath(platformString: template)
        var names: [FilePath] = []
        for (number, part) in bytes.split(separator: 0, maxSplits: 7).enumerated() {
            // A scope is that of the part before, or of no key.
            let name = ["\(number).pub.pem", "\(number).pem", "\(max(0, number - 1)).pub.pem.scope", "\(number)"]
            let path = folder.appending(name[Int(part.first ?? 0) % 4])
            names.append(path)
            write(Array(part.dropFirst()), to: path)
        }
        defer {
            for name in names { unlink(name.string) }
            rmdir(folder.string)
        }
        if let scope = try? TrustScope(parsing: bytes, of: "scope"), scope.products == nil, scope.formats == nil {
            return "a scope without a limit"
        }
        guard let store = try? TrustStore(paths: [folder]) else { return nil }
        return store.keys.isEmpty ? "a trust store without a key" : nil
    }

    private static func write(_ bytes: [UInt8], to path: FilePath) {
        guard let file = try? FileDescriptor.open(path, .writeOnly, options: [.create], permissions: [.ownerReadWrite])
        else { return }
        _ = try? file.closeAfter { try file.writeAll(bytes) }
    }
}
