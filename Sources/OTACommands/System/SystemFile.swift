import FoundationEssentials
import SystemPackage

/// Reads small files of the system, which may not exist.
enum SystemFile {
    /// Returns the first 64 KiB of a file; nil: it cannot be read.
    static func text(_ path: String) -> String? {
        guard let file = try? FileDescriptor.open(FilePath(path), .readOnly, options: .closeOnExec) else { return nil }
        defer { try? file.close() }
        var bytes = [UInt8](repeating: 0, count: 65536)
        guard let count = try? bytes.withUnsafeMutableBytes({ try file.read(into: $0) }) else { return nil }
        return String(decoding: bytes[..<count], as: UTF8.self)
    }

    /// Returns the first line of a file; nil: it cannot be read.
    static func line(_ path: String) -> String? {
        text(path).map { String($0.prefix { !$0.isNewline }) }
    }

    /// Returns the sorted names in a folder; empty if it cannot be read.
    static func names(in folder: String) -> [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).sorted()
    }
}
