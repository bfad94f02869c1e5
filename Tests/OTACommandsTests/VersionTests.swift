import FoundationEssentials
import OTACommands
import Testing

@Suite struct VersionTests {
    @Test(arguments: [["--version"], ["push", "--version"], ["--format", "json", "--version"]])
    func isPrinted(arguments: [String]) async throws {
        let run = try await Sandbox().run(arguments)
        #expect(run.exit == 0)
        #expect(run.out == "otaflash \(Version.number)\n")
        #expect(run.err.isEmpty)
    }

    /// Of the commands with an option of that name it is the option.
    @Test(arguments: [["sign", "--version", "1.0.0"], ["simulate", "create", "--version", "1.0.0"]])
    func isAnOptionOfSomeCommands(arguments: [String]) async throws {
        let run = try await Sandbox().run(arguments)
        #expect(run.exit == 64)
        #expect(run.out.isEmpty)
    }
}
