import Testing

extension Sandbox {
    /// Bytes without pattern, the same each time.
    static func image(_ size: Int, seed: UInt64 = 1) -> [UInt8] {
        var state = seed
        return (0..<size).map { _ in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return UInt8(truncatingIfNeeded: state >> 56)
        }
    }

    /// Makes the key pair `release` and, of an image, the bundle `fw.otaf` for the product `demo`.
    func release(
        size: Int = 20_000, version: String = "1.1.0", as bundle: String = "fw.otaf", _ options: String...
    ) async throws {
        if !exists("release.pem") { #expect(try await run("keygen", "release").exit == 0) }
        try write("fw.bin", Self.image(size))
        let signed = try await run(
            ["sign", "fw.bin", "--key", "release.pem", "--product", "demo", "--version", version, "-o", bundle]
                + options, env: ["SOURCE_DATE_EPOCH": "1767225600"])
        #expect(signed.exit == 0, "\(signed.err)")
    }

    /// Pushes a bundle to a virtual device, as fast as the machine.
    func push(_ device: String = "sim:?pace=virtual", _ options: String..., bundle: String = "fw.otaf") async throws -> Run {
        try await run(
            ["push", bundle, "--device", device, "--trust", "release.pub.pem", "--format", "json", "--progress", "none"]
                + options)
    }
}
