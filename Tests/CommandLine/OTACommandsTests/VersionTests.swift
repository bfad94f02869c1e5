import FoundationEssentials
import OTACommands
import Testing

@Suite("Option --version") struct VersionTests {
    @Test(
        "--version prints the version of otaflash",
        arguments: [["--version"], ["push", "--version"], ["--format", "json", "--version"]])
    func isPrinted(arguments: [String]) async throws {
        let run = try await Sandbox().run(arguments)
        #expect(run.exit == 0)
        #expect(run.out == "otaflash \(Version.number)\n")
        #expect(run.err.isEmpty)
    }

    @Test(
        "sign and simulate create use --version as their own option",
        arguments: [["sign", "--version", "1.0.0"], ["simulate", "create", "--version", "1.0.0"]])
    func isAnOptionOfSomeCommands(arguments: [String]) async throws {
        let run = try await Sandbox().run(arguments)
        #expect(run.exit == 64)
        #expect(run.out.isEmpty)
    }

    @Test("the version is the one of the latest heading in CHANGELOG.md")
    func isTheOneOfTheChanges() throws {
        let changes = try String(contentsOfFile: Sandbox.repository("CHANGELOG.md"), encoding: .utf8)
        let heading = try #require(changes.split(separator: "\n").first { $0.hasPrefix("## ") })
        #expect(heading.split(separator: " ").dropFirst().first.map(String.init) == Version.number)
    }
}
