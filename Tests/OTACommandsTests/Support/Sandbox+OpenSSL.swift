import Subprocess
import Testing

extension Sandbox {
    /// What the `openssl` command writes on stdout.
    @discardableResult
    func openssl(_ arguments: String...) async throws -> [UInt8] {
        let result = try await Subprocess.run(
            .name("openssl"), arguments: Arguments(arguments), workingDirectory: folder, output: .bytes(limit: 1 << 20),
            error: .string(limit: 1 << 16))
        try #require(result.terminationStatus.isSuccess, "\(arguments): \(result.standardError)")
        return result.standardOutput
    }
}
