import OTAFirmware
import SystemPackage
import Testing

/// Reads `vectors.txt`: frames from the published SMP package for Python (`peer.py vectors`).
enum GoldenFile {
    struct Line: Sendable {
        var kind, name: String
        var version, sequence: UInt8
        var bytes: [UInt8]
    }

    static var folder: FilePath { FilePath(#filePath).removingLastComponent() }

    static func lines() throws -> [Line] {
        let file = try FileDescriptor.open(folder.appending("vectors.txt"), .readOnly)
        let text = try file.closeAfter {
            var bytes = [UInt8](repeating: 0, count: 1 << 20)
            let count = try bytes.withUnsafeMutableBytes { try file.read(into: $0) }
            return String(decoding: bytes.prefix(count), as: UTF8.self)
        }
        return try text.split(separator: "\n").filter { !$0.hasPrefix("#") }.map { line in
            let words = line.split(separator: " ").map(String.init)
            try #require(words.count == 5)
            return Line(
                kind: words[0], name: words[1], version: try #require(UInt8(words[2])),
                sequence: try #require(UInt8(words[3])), bytes: try #require(Hex.decode(words[4])))
        }
    }
}
