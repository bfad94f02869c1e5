import OTAFirmware
import Subprocess
import SystemPackage

/// The `openssl` command: what the keys and bundles made here are held against.
enum OpenSSLCommand {
    struct Failed: Error {
        var arguments: [String]
        var message: String
    }

    /// Its standard output.
    @discardableResult
    static func run(_ arguments: String..., input: [UInt8] = []) async throws -> [UInt8] {
        try await run(arguments, input: input)
    }

    @discardableResult
    static func run(_ arguments: [String], input: [UInt8] = []) async throws -> [UInt8] {
        let result = try await Subprocess.run(
            .name("openssl"), arguments: Arguments(arguments), input: .array(input), output: .bytes(limit: 1 << 20),
            error: .string(limit: 1 << 16))
        guard result.terminationStatus.isSuccess else {
            throw Failed(arguments: arguments, message: result.standardError)
        }
        return result.standardOutput
    }

    /// Whether it takes `signature` over `message` for one by the key in `publicKey`.
    static func verifies(
        _ signature: [UInt8], over message: [UInt8], by publicKey: FilePath, in folder: TemporaryFolder
    ) async throws -> Bool {
        let message = try folder.write("message", message)
        let signature = try folder.write("signature", signature)
        let result = try await Subprocess.run(
            .name("openssl"),
            arguments: [
                "pkeyutl", "-verify", "-pubin", "-inkey", publicKey.string, "-rawin", "-in", message.string,
                "-sigfile", signature.string,
            ],
            output: .string(limit: 1 << 16), error: .discarded)
        return result.terminationStatus.isSuccess
            && result.standardOutput.contains("Signature Verified Successfully")
    }
}
