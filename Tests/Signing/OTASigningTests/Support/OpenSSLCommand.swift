import OTAFirmware
import OTATestSupport
import SystemPackage

/// Runs the `openssl` command. The tests compare keys and bundles with it.
enum OpenSSLCommand {
    struct Failed: Error {
        var arguments: [String]
        var message: String
    }

    /// Returns the standard output.
    @discardableResult
    static func run(_ arguments: String..., input: [UInt8] = []) async throws -> [UInt8] {
        try await run(arguments, input: input)
    }

    @discardableResult
    static func run(_ arguments: [String], input: [UInt8] = []) async throws -> [UInt8] {
        let command = try await Command.run("openssl", arguments, input: input)
        guard command.succeeded else { throw Failed(arguments: arguments, message: command.errorText) }
        return command.output
    }

    /// Returns whether openssl accepts `signature` over `message` by the key in `publicKey`.
    static func verifies(
        _ signature: [UInt8], over message: [UInt8], by publicKey: FilePath, in folder: TemporaryFolder
    ) async throws -> Bool {
        let message = try folder.write("message", message)
        let signature = try folder.write("signature", signature)
        let command = try await Command.run(
            "openssl",
            [
                "pkeyutl", "-verify", "-pubin", "-inkey", publicKey.string, "-rawin", "-in", message.string,
                "-sigfile", signature.string,
            ])
        return command.succeeded && command.outputText.contains("Signature Verified Successfully")
    }
}
