import FoundationEssentials
import OTATestSupport
import Subprocess
import SystemPackage
import Testing

/// Long runs.
@Suite("Endurance") struct ExhaustiveEnduranceTests {
    /// Pages of freed memory that an allocator keeps, in bytes.
    private static let slack = 2 << 20

    /// The pushes alternate between two images. The first 100 pushes are the reference.
    @Test("the virtual device uses no more memory, descriptors and files after 1000 pushes than after 100")
    func aThousandPushes() async throws {
        let sandbox = try Sandbox()
        let images = ["even.bin", "odd.bin"]
        for (image, version) in zip(images, ["1.1.0", "1.2.0"]) {
            try await sandbox.mcuboot(size: 2000, version: version, as: image)
        }
        try await sandbox.create(options: ["--protocol", "smp"])
        try await sandbox.serving(["--udp", "0"]) { address, device in
            func push(_ rounds: Range<Int>) async throws -> (footprint: Footprint, files: [String]) {
                for round in rounds {
                    let run = try await sandbox.push(address, image: images[round % 2], "--upload-only")
                    try #require(run.exit == 0, "push \(round): \(run.err)")
                    #expect(try run.json().transfer?.sent_bytes?.number ?? 0 > 2000, "push \(round)")
                }
                return (
                    Footprint(of: device.process.value),
                    try FileManager.default.subpathsOfDirectory(atPath: sandbox.folder.string).sorted()
                )
            }
            let warm = try await push(0..<100)
            try #require(warm.footprint.memory > 0 && warm.footprint.descriptors > 3 && warm.files.contains(images[1]))
            let last = try await push(100..<1000)
            #expect(
                last.footprint.isStable(since: warm.footprint, slack: Self.slack),
                "\(last.footprint.growth(since: warm.footprint))")
            #expect(last.files == warm.files)
        }
    }
}
