import FoundationEssentials
import Testing

@Suite("JSON examples in docs/command-line.md") struct JSONExampleTests {
    private static let page = URL(filePath: Sandbox.repository("docs/command-line.md"))

    /// The names of all members, also in objects inside.
    private func members(_ json: some StringProtocol) -> Set<String> {
        Set(String(json).matches(of: #/"([a-z_]+)":/#).map { String($0.1) })
    }

    @Test("the examples have the members of the real output")
    func examples() async throws {
        let examples = try String(contentsOf: Self.page, encoding: .utf8).split(separator: "\n")
            .filter { $0.hasPrefix("    {\"") }
        try #require(examples.count == 3)
        let sandbox = try Sandbox()
        try await sandbox.release(size: 100_000)
        #expect(try await sandbox.run("keygen", "other").exit == 0)
        let words = ["push", "fw.otaf", "--device", "sim:?pace=virtual", "--progress", "json", "--format", "json"]

        let refused = try await sandbox.run(words + ["--trust", "other.pub.pem"])
        #expect(refused.exit == 77 && examples[1].contains("untrusted-key") && refused.out.contains("untrusted-key"))
        #expect(members(examples[1]) == members(refused.out))

        let run = try await sandbox.run(words + ["--trust", "release.pub.pem"])
        #expect(run.exit == 0 && members(examples[0]).isSubset(of: members(run.out)))
        let events = run.err.split(separator: "\n").filter { $0.contains("\"event\":\"progress\"") }
        let event = try #require(events.last)
        #expect(members(examples[2]) == members(event))
    }
}
