import FoundationEssentials
import Glibc
import OTATestSupport
import OTAUpdate
import SystemPackage
import Testing

extension Sandbox {
    /// Pseudo-random bytes, the same for each seed.
    static func image(_ size: Int, seed: UInt64 = 1) -> [UInt8] {
        var random = SplitMix64(seed: seed)
        return random.bytes(size)
    }

    /// Makes the key pair `release` and the bundle `fw.otaf` for the product `demo`.
    func release(
        size: Int = 20_000, version: String = "1.1.0", as bundle: String = "fw.otaf", _ options: String...
    ) async throws { try await release(size: size, version: version, as: bundle, options: options) }

    func release(
        size: Int = 20_000, version: String = "1.1.0", as bundle: String = "fw.otaf", options: [String]
    ) async throws {
        if !exists("release.pem") { #expect(try await run("keygen", "release").exit == 0) }
        try write("fw.bin", Self.image(size))
        let signed = try await run(
            ["sign", "fw.bin", "--key", "release.pem", "--product", "demo", "--version", version, "-o", bundle]
                + options, env: ["SOURCE_DATE_EPOCH": "1767225600"])
        #expect(signed.exit == 0, "\(signed.err)")
    }

    /// Makes the virtual device `kitchen`, by default with product `demo` and version 1.0.0.
    func create(_ options: String...) async throws { try await create(options: options) }

    func create(options: [String]) async throws {
        var words = options
        for (name, value) in [("--product", "demo"), ("--version", "1.0.0"), ("--trust", "release.pub.pem")]
        where !options.contains(name) {
            words += [name, value]
        }
        let run = try await run(["simulate", "create", "kitchen"] + words)
        #expect(run.exit == 0, "\(run.err)")
    }

    /// Pushes a bundle to a virtual device, by default in virtual time.
    func push(_ device: String = "sim:?pace=virtual", _ options: String..., bundle: String = "fw.otaf") async throws
        -> Run
    {
        try await run(
            [
                "push", bundle, "--device", device, "--trust", "release.pub.pem", "--format", "json", "--progress",
                "none",
            ]
                + options)
    }

    /// The path of a file in the repository.
    static func repository(_ path: String) -> String { Repository.root.appending(path).string }

    static func sample(_ name: String) -> String { repository("firmware-samples/" + name) }

    /// Copies the demo key pair to `demo.pem` and `demo.pub.pem` with mode 600. Other users can read the files in a checkout.
    func takeDemoKey() throws {
        for name in ["demo.pem", "demo.pub.pem"] {
            try write(name, Array(Data(contentsOf: URL(filePath: Self.repository("keys/otaflash-" + name)))))
            chmod(path(name), 0o600)
        }
    }

    /// The sorted names of the files in the working folder.
    func names() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: folder.string).sorted() }
}
