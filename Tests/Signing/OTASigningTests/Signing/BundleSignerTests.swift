import Glibc
import OTAFirmware
import OTASigning
import OTATestSupport
import OTAUpdate
import SystemPackage
import Testing

@Suite("Signing an image as a bundle") struct BundleSignerTests {
    private let folder: TemporaryFolder
    private let keys: [PrivateKey]
    private let trust: TrustStore

    init() throws {
        folder = try TemporaryFolder()
        keys = try RFC8032.all.map { try $0.privateKey() }
        trust = try TrustStore(keys.map(\.publicKey))
    }

    private func release(product: String? = "demo", version: String? = "1.1.0") -> Release {
        Release(
            product: product.flatMap { ProductName($0) }, version: version.flatMap { SemanticVersion($0) },
            hardware: HardwareRevisions(ranges: [1...3]), securityCounter: 7)
    }

    /// Signs `image` in the folder as `out.otaf`.
    @discardableResult
    private func sign(
        _ image: [UInt8], _ release: Release? = nil, keys: [PrivateKey]? = nil, to name: String = "out.otaf",
        replace: Bool = false
    ) throws -> SignedFile {
        let path = try folder.write("image", image)
        defer { unlink(path.string) }
        return try BundleSigner(keys: keys ?? [self.keys[0]]).sign(
            path, as: release ?? self.release(), created: 1_767_225_600, to: folder / name, replace: replace)
    }

    private func verified(_ name: String = "out.otaf") throws -> VerifiedBundle {
        try Verifier(trust: trust).verify(SignedBundle(parsing: contents(of: folder / name)))
    }

    // MARK: The new bundle

    @Test("signing the worked example gives the documented bytes")
    func makesTheWorkedExample() throws {
        let signed = try sign(WorkedExample.image)
        #expect(try contents(of: folder / "out.otaf") == WorkedExample.bytes)
        #expect(signed.path == folder / "out.otaf")
        #expect(signed.envelope.bytes == WorkedExample.envelope)
        #expect(signed.manifestDigest.description.hasPrefix("53e0f6a77cd73185"))
        #expect(signed.image?.format == .raw)
        #expect(folder.names() == ["out.otaf"])
    }

    @Test("the same input gives the same bundle, in any order of the keys")
    func twoRunsGiveTheSameBytes() throws {
        var random = SplitMix64(seed: 1)
        let image = random.bytes(100_000)
        try sign(image, keys: keys, to: "first")
        try sign(image, keys: keys.reversed(), to: "second")
        #expect(try contents(of: folder / "first") == contents(of: folder / "second"))
    }

    /// The script is copied from docs/bundle-format.md.
    @Test("the commands of docs/bundle-format.md verify the first signature with head, tail and openssl")
    func headTailAndOpensslVerifyTheFirstSignature() async throws {
        try sign(WorkedExample.image, keys: [keys[2], keys[0]])
        let first = try #require(
            keys.map(\.publicKey).filter { $0 == keys[0].publicKey || $0 == keys[2].publicKey }
                .min { $0.id < $1.id })
        try folder.write("release.pub.pem", first.pem().bytes)
        let script = """
            M=$(od -An -tu2 -j6 -N2 out.otaf | tr -d ' ')
            head -c $M out.otaf > m && tail -c +$((M+17)) out.otaf | head -c 64 > s
            openssl pkeyutl -verify -pubin -inkey release.pub.pem -rawin -in m -sigfile s
            """
        func run() async throws -> String {
            let command = try await Command.run("sh", ["-c", script], in: folder.path)
            return command.succeeded ? command.outputText : "failed"
        }
        #expect(try await run() == "Signature Verified Successfully\n")
        var bytes = try contents(of: folder / "out.otaf")
        bytes[16] ^= 1
        try folder.write("out.otaf", bytes)
        #expect(try await run() == "failed")
    }

    @Test("an image of any length is copied and hashed correctly", arguments: [1, 262_143, 262_144, 262_145, 700_001])
    func pieces(_ size: Int) async throws {
        var random = SplitMix64(seed: UInt64(size))
        let image = [1] + random.bytes(size - 1)
        try sign(image)
        let bundle = try verified().bundle
        #expect(bundle.image == image)
        let digest = try await OpenSSLCommand.run("dgst", "-sha256", "-binary", input: image)
        #expect(bundle.envelope.manifest.imageDigest.bytes == digest)
    }

    @Test("one to four keys can sign a bundle")
    func signsWithUpToFourKeys() throws {
        for count in 1...4 {
            try sign(WorkedExample.image, keys: Array(keys.prefix(count)), to: "\(count).otaf")
            #expect(try Set(verified("\(count).otaf").signers) == Set(keys.prefix(count).map(\.publicKey.id)))
        }
    }

    @Test("the manifest contains all given values, and the security counter defaults to 0")
    func carriesAllThatIsSaid() throws {
        var release = release()
        release.minimumBattery = 30
        release.source = "commit 4f1c"
        release.requires = RequiredVersion(major: 1, minor: 0, patch: 2)
        try sign(WorkedExample.image, release)
        let manifest = try verified().manifest
        #expect(manifest.minimumBattery == 30)
        #expect(manifest.source == "commit 4f1c")
        #expect(manifest.requires == release.requires)
        #expect(manifest.hardware == release.hardware)
        #expect(manifest.securityCounter == 7)
        #expect(manifest.created == 1_767_225_600)
        release.securityCounter = nil
        try sign(WorkedExample.image, release, to: "uncounted.otaf")
        #expect(try verified("uncounted.otaf").manifest.securityCounter == 0)
    }

    // MARK: Values from the image

    @Test("a missing product or version is taken from the image")
    func takesFromTheImageWhatIsNotSaid() throws {
        let beacon = try Repository.sample("acme-beacon-1.1.0.mcuboot.bin")
        let signed = try sign(beacon, release(version: nil), to: "detected.otaf")
        #expect(signed.envelope.manifest.version.text == "1.1.0")
        #expect(signed.envelope.manifest.imageFormat == .mcuboot)
        #expect(signed.image?.versionText == "1.1.0")
        try sign(beacon, release(version: "1.1.0"), to: "given.otaf")
        #expect(try contents(of: folder / "detected.otaf") == contents(of: folder / "given.otaf"))

        let thermostat = try Repository.sample("acme-thermostat-1.0.0.bin")
        let manifest = try sign(thermostat, Release(), to: "thermostat.otaf").envelope.manifest
        #expect(manifest.product.text == "acme-thermostat")
        #expect(manifest.version.text == "1.0.0")
        #expect(manifest.imageFormat == .espressif)
        #expect(try verified("thermostat.otaf").bundle.image == thermostat)
    }

    @Test("a product, version or format that contradicts the image is refused")
    func refusesWhatTheImageContradicts() throws {
        let image = try Repository.sample("acme-thermostat-1.0.0.bin")
        for (code, release) in [
            ("version-mismatch", release(product: nil, version: "1.0.1")),
            ("version-mismatch", release(product: "acme-thermostat", version: "1.0.1")),
            ("product-mismatch", release(product: "acme-thermostats", version: nil)),
            ("wrong-image-format", Release(format: .mcuboot)),
        ] {
            let error = #expect(throws: SigningError.self) { try sign(image, release) }
            #expect(error?.code == code)
            #expect(folder.names() == [])
        }
    }

    @Test("a product or version that is neither given nor in the image is required")
    func asksForWhatNobodySays() throws {
        let product = #expect(throws: SigningError.self) { try sign(WorkedExample.image, release(product: nil)) }
        #expect(product?.code == "product-required")
        #expect(product?.hint?.contains("--product") == true)
        let version = #expect(throws: SigningError.self) { try sign(WorkedExample.image, release(version: nil)) }
        #expect(version?.code == "version-required")
        #expect(version?.hint?.contains("--version") == true)
        #expect(folder.names() == [])
    }

    @Test("Intel HEX text gives the same bundle as its binary")
    func readsIntelHex() throws {
        let binary = try Repository.sample("acme-beacon-1.1.0.bin")
        try sign(Repository.sample("acme-beacon-1.1.0.hex"), to: "text.otaf")
        try sign(binary, to: "binary.otaf")
        #expect(try contents(of: folder / "text.otaf") == contents(of: folder / "binary.otaf"))
        #expect(try verified("text.otaf").bundle.image == binary)
    }

    @Test("a file that is not a valid image is refused and leaves no output file")
    func refusesWhatIsNoImageAndLeavesNothingBehind() throws {
        let hex = try Repository.sample("acme-beacon-1.1.0.hex")
        let beacon = try Repository.sample("acme-beacon-1.1.0.mcuboot.bin")
        let elf: [UInt8] = [0x7f, 0x45, 0x4c, 0x46, 1, 1, 1] + [UInt8](repeating: 0, count: 11) + [94, 0]
        var damaged = beacon
        damaged[5000] ^= 1
        for (code, image) in [
            ("empty-image", []),
            ("not-an-image", elf),
            ("bad-hex-record", Array(hex.prefix(4096))),
            ("truncated-image", Array(beacon.prefix(4096))),
            ("bad-image-digest", damaged),
        ] as [(String, [UInt8])] {
            for release in [release(version: "1.1.0"), release(version: nil)] {
                let error = #expect(throws: SigningError.self) { try sign(image, release) }
                #expect(error?.code == code)
                #expect(folder.names() == [])
            }
        }
    }

    @Test("a creation time after the year 9999 is refused")
    func refusesWhatFitsNoManifest() throws {
        let path = try folder.write("image", WorkedExample.image)
        let error = #expect(throws: SigningError.self) {
            try BundleSigner(keys: keys).sign(path, as: release(), created: 253_402_300_800, to: folder / "out")
        }
        #expect(error?.code == "bad-creation-time")
        #expect(folder.names() == ["image"])
    }
}
