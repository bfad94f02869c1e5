import OTATestSupport
import Testing

extension Sandbox {
    /// Runs `openssl` and returns its stdout.
    @discardableResult
    func openssl(_ arguments: String...) async throws -> [UInt8] {
        let command = try await Command.run("openssl", arguments, in: folder)
        try #require(command.succeeded, "\(arguments): \(command.errorText)")
        return command.output
    }
}
