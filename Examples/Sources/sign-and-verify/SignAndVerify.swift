import FoundationEssentials
import OTAFirmware
import OTASigning
import SystemPackage

/// Signs an image with a new key, verifies the bundle, and prints its manifest: `sign-and-verify IMAGE BUNDLE`.
@main
struct SignAndVerify {
    static func main() throws {
        guard CommandLine.arguments.count == 3 else { return print("usage: sign-and-verify IMAGE BUNDLE") }
        let image = FilePath(CommandLine.arguments[1])
        let bundle = FilePath(CommandLine.arguments[2])
        let now = UInt64(Date().timeIntervalSince1970)

        // The key exists only in memory. PrivateKey(pem:) reads a key from a file.
        let key = try PrivateKey.generate()
        let release = Release(hardware: HardwareRevisions("1..3"), securityCounter: 4)
        _ = try BundleSigner(keys: [key]).sign(image, as: release, created: now, to: bundle, replace: true)

        let file = try [UInt8](Data(contentsOf: URL(filePath: bundle.string)))
        let trust = try TrustStore([key.publicKey])
        let verified = try Verifier(trust: trust).verify(SignedBundle(parsing: file))
        print(verified.manifest.product, verified.manifest.version, "signed by", verified.signers)

        printFields(of: verified)
        try checkThatAChangedImageIsRejected(file, trust)
    }

    private static func printFields(of verified: VerifiedBundle) {
        let manifest = verified.manifest
        print("format:", manifest.imageFormat.name)
        print("image: \(manifest.imageSize) bytes, SHA-256 \(manifest.imageDigest)")
        print("hardware:", manifest.hardware?.description ?? "all revisions")
        print("security counter:", manifest.securityCounter)
        print("manifest: SHA-256 \(verified.manifestDigest)")
    }

    private static func checkThatAChangedImageIsRejected(_ bundle: [UInt8], _ trust: TrustStore) throws {
        var changed = bundle
        changed[changed.count - 1] ^= 1
        do {
            _ = try Verifier(trust: trust).verify(SignedBundle(parsing: changed))
        } catch let error as VerificationError {
            print("one changed bit:", error.code.rawValue)
        }
    }
}
