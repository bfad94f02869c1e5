import DeviceFuzz
import FoundationEssentials
import FuzzTargets
import OTATestSupport
import SystemPackage
import Testing

/// Runs the corpus: the first inputs of the fuzzers, and the inputs of all crashes that they found.
@Suite("Fuzz corpus") struct CorpusTests {
    private static let deviceTargets = ["device", "decoder", "envelope", "ed25519"]
    private static let corpus = URL(filePath: Repository.root.string).appending(path: "Fuzz/Corpus")

    private func inputs(of target: String) throws -> [(name: String, bytes: [UInt8])] {
        let folder = Self.corpus.appending(path: target)
        return try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted().map { name in
            (name, Array(try Data(contentsOf: folder.appending(path: name))))
        }
    }

    @Test(
        "no input of a target's corpus, whole or cut short, violates its conditions or traps",
        arguments: FuzzTarget.allCases)
    func everyInput(_ target: FuzzTarget) throws {
        let inputs = try inputs(of: target.rawValue)
        #expect(!inputs.isEmpty)
        for (name, bytes) in inputs { #expect(target.run(bytes) == nil, "\(name)") }
        // Each input is also cut at up to 16 places.
        for (name, bytes) in inputs {
            for count in stride(from: 0, to: bytes.count, by: 1 + bytes.count / 16) {
                #expect(target.run(Array(bytes.prefix(count))) == nil, "\(name), \(count) bytes of it")
            }
        }
    }

    @Test(
        "no input of the corpora for the device's C code violates the conditions of its target or traps",
        arguments: deviceTargets)
    func everyInputOfTheDeviceCore(_ target: String) throws {
        let inputs = try inputs(of: target)
        #expect(!inputs.isEmpty)
        for (name, bytes) in inputs {
            let run =
                switch target {
                case "device": device_fuzz
                case "decoder": decoder_fuzz
                case "envelope": envelope_fuzz
                default: ed25519_fuzz
                }
            let finding = run(bytes, bytes.count).map { String(cString: $0) }
            #expect(finding == nil, "\(name)")
        }
    }

    // The tests would never run the inputs of another folder.
    @Test("every folder of the corpus has a target")
    func everyFolderHasATarget() throws {
        let folders = try FileManager.default.contentsOfDirectory(atPath: Self.corpus.path)
        #expect(Set(folders) == Set(FuzzTarget.allCases.map(\.rawValue) + Self.deviceTargets))
    }
}
