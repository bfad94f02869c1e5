import DeviceFuzz
import FoundationEssentials
import FuzzTargets
import Testing

/// What the fuzzers begin with, and whatever they have ever found: none of it traps, and nothing is as it must not be.
@Suite struct CorpusTests {
    private static let corpus = (0..<3).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }
        .appending(path: "Fuzz/Corpus")

    private func inputs(of target: String) throws -> [(name: String, bytes: [UInt8])] {
        let folder = Self.corpus.appending(path: target)
        return try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted().map { name in
            (name, Array(try Data(contentsOf: folder.appending(path: name))))
        }
    }

    @Test(arguments: FuzzTarget.allCases) func everyInput(_ target: FuzzTarget) throws {
        let inputs = try inputs(of: target.rawValue)
        #expect(!inputs.isEmpty)
        for (name, bytes) in inputs { #expect(target.run(bytes) == nil, "\(name)") }
        // The ends of each, too: what is cut short is foreign as well.
        for (name, bytes) in inputs {
            for count in stride(from: 0, to: bytes.count, by: 1 + bytes.count / 16) {
                #expect(target.run(Array(bytes.prefix(count))) == nil, "\(name), \(count) bytes of it")
            }
        }
    }

    @Test func everyInputOfTheDeviceCore() throws {
        let inputs = try inputs(of: "device")
        #expect(!inputs.isEmpty)
        for (name, bytes) in inputs {
            let finding = device_fuzz(bytes, bytes.count).map { String(cString: $0) }
            #expect(finding == nil, "\(name)")
        }
    }

    /// A folder that belongs to no target would never be played.
    @Test func everyFolderHasATarget() throws {
        let folders = try FileManager.default.contentsOfDirectory(atPath: Self.corpus.path)
        #expect(Set(folders) == Set(FuzzTarget.allCases.map(\.rawValue) + ["device"]))
    }
}
