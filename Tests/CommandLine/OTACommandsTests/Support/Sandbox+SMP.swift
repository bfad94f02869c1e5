import Subprocess
import SystemPackage
import Testing

extension Sandbox {
    /// Makes the key pair `release` and the MCUboot image `fw.signed.bin` with `size` bytes of program.
    func mcuboot(
        size: Int = 20_000, version: String = "1.1.0", key: String = "release", as file: String = "fw.signed.bin",
        options: [String] = []
    ) async throws {
        if !exists("\(key).pem") { #expect(try await run("keygen", key).exit == 0) }
        try write("fw.bin", Self.image(size))
        let signed = try await run(
            [
                "sign", "fw.bin", "--as", "mcuboot", "--header-size", "32", "--pad-header", "--version", version,
                "--key",
                "\(key).pem", "-o", file, "--force",
            ] + options)
        #expect(signed.exit == 0, "\(signed.err)")
    }

    /// Pushes `image` with the trusted key `release`.
    func push(_ device: String, image: String, _ options: String...) async throws -> Run {
        try await push(device, image: image, options[...])
    }

    func push(_ device: String, image: String, _ options: ArraySlice<String>) async throws -> Run {
        try await run(
            [
                "push", image, "--device", device, "--trust", "release.pub.pem", "--format", "json", "--progress",
                "none",
            ] + options)
    }

    /// Serves the virtual device `kitchen` over a transport in a separate process during `body`.
    ///
    /// - Parameters:
    ///   - signal: ends the process; `.kill` simulates a loss of power.
    ///   - body: receives the device's address and process.
    @discardableResult
    func serving<Result: Sendable>(
        _ transport: [String], endingBy signal: Signal = .terminate,
        _ body: (String, Served) async throws -> Result
    ) async throws -> Result {
        let result = try await Subprocess.run(
            .path(Self.binary), arguments: Arguments(["simulate", "serve", "kitchen"] + transport),
            environment: environment(), workingDirectory: folder, input: .none, output: .discarded,
            error: .sequence
        ) { execution in
            let lines = execution.standardError.strings()
            let (notes, note) = AsyncStream<String>.makeStream()
            async let _: Void = {
                defer { note.finish() }
                for try await line in lines { note.yield(line) }
            }()
            defer { try? execution.send(signal: signal) }
            for await line in notes {
                guard let start = line.firstRange(of: " is at ")?.upperBound else { continue }
                let address = line[start...].trimmingSuffix { $0.isNewline }
                return try await body(String(address), Served(process: execution.processIdentifier, notes: notes))
            }
            throw SandboxError(message: "the device is not served")
        }
        return result.closureResult
    }
}

/// A virtual device in a separate process.
struct Served: Sendable {
    let process: ProcessIdentifier
    /// The next lines of the process on stderr.
    let notes: AsyncStream<String>
}

extension Substring {
    fileprivate func trimmingSuffix(_ isSuffix: (Character) -> Bool) -> Substring {
        var rest = self
        while let last = rest.last, isSuffix(last) { rest.removeLast() }
        return rest
    }
}

struct SandboxError: Error {
    let message: String
}
